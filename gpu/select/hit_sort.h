// Hits of many queries in one list, sorted by query: they are counted by query, each query's place
// is the sum of the counts before it, and then each hit goes to its place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace warplite::gpu {

struct HitCounts {
  std::uint32_t queries;
  std::uint32_t* counts;            // [queries]; 0 again afterwards
  const unsigned long long* found;  // hits of all queries
  std::uint32_t* device_begins;     // [queries + 1]
  // Memory that the host reads.
  std::uint32_t* begins;            // [queries + 1]
  unsigned long long* all_found;    // a copy of found
};
// Sums the counts up.
void launch_hit_begins(const HitCounts& hits, cudaStream_t stream);

// Thread blocks that go through a list of hits, at most.
inline constexpr unsigned kMostHitBlocks = 2048;
inline constexpr unsigned kHitThreads = 256;
constexpr unsigned hit_blocks(std::uint64_t room) {
  const std::uint64_t blocks = (room + kHitThreads - 1) / kHitThreads;
  return static_cast<unsigned>(blocks < kMostHitBlocks ? blocks : kMostHitBlocks);
}

#ifdef __CUDACC__
// Adds 1 to counts[query] for each lane that takes part; returns the number before. Lanes with the
// same query do so together.
__device__ inline std::uint32_t count_hit(std::uint32_t* counts, std::uint32_t query,
                                          unsigned lanes) {
  const unsigned peers = __match_any_sync(lanes, query);
  const unsigned lane = threadIdx.x % 32;
  const auto leader = static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1);
  std::uint32_t before = 0;
  if (lane == leader) before = atomicAdd(counts + query, static_cast<std::uint32_t>(__popc(peers)));
  before = __shfl_sync(peers, before, static_cast<int>(leader));
  return before + static_cast<std::uint32_t>(__popc(peers & ((1u << lane) - 1)));
}
#endif

}  // namespace warplite::gpu

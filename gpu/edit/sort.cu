// Hits that are within the thresholds in the end, sorted by query.
#include <algorithm>

#include "gpu/edit/edit.h"
#include "gpu/runtime/block_sum.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kScanThreads = 1024;
constexpr unsigned kMostBlocks = 2048;

struct Hit {
  std::uint32_t place, query, distance;

  __device__ Hit(const EditSearchView& search, std::uint64_t packed)
      : place(static_cast<std::uint32_t>(packed >> 32)) {
    const auto low = static_cast<std::uint32_t>(packed);
    query = search.distance_bits == 32 ? 0 : low >> 16;
    distance = search.distance_bits == 32 ? low : low & 0xffffu;
  }
};

// Adds 1 to counts[query] for each lane that takes part; returns the number before. Lanes with the
// same query do so together.
__device__ std::uint32_t count_one(std::uint32_t* counts, std::uint32_t query, unsigned lanes) {
  const unsigned peers = __match_any_sync(lanes, query);
  const unsigned lane = threadIdx.x % 32;
  const auto leader = static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1);
  std::uint32_t before = 0;
  if (lane == leader) before = atomicAdd(counts + query, static_cast<std::uint32_t>(__popc(peers)));
  before = __shfl_sync(peers, before, static_cast<int>(leader));
  return before + static_cast<std::uint32_t>(__popc(peers & ((1u << lane) - 1)));
}

// Calls visit(hit, lanes that take part) for all hits within the thresholds.
template <typename Visit>
__device__ void for_hits(const EditSearchView& search, const Visit& visit) {
  const std::uint64_t found = min(static_cast<std::uint64_t>(*search.found), search.room);
  const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * kThreads; first < found; first += step) {
    const std::uint64_t i = first + threadIdx.x;
    const Hit hit(search, i < found ? search.hits[i] : 0);
    const bool within = i < found && hit.distance <= search.thresholds[hit.query];
    const unsigned lanes = __ballot_sync(~0u, within);
    if (within) visit(hit, lanes);
  }
}

__global__ void __launch_bounds__(kThreads)
    count_kernel(const __grid_constant__ EditSearchView search, EditSortView sort) {
  for_hits(search, [&](const Hit& hit, unsigned lanes) {
    count_one(sort.counts, hit.query, lanes);
  });
}

// One thread block.
__global__ void __launch_bounds__(kScanThreads)
    begins_kernel(const __grid_constant__ EditSearchView search, EditSortView sort) {
  __shared__ unsigned sums[kScanThreads / 32];
  std::uint32_t before = 0;
  for (std::uint32_t first = 0; first < search.queries; first += kScanThreads) {
    const std::uint32_t query = first + threadIdx.x;
    const std::uint32_t own = query < search.queries ? sort.counts[query] : 0;
    unsigned total = 0;
    const std::uint32_t at = before + exclusive_sum<kScanThreads>(own, sums, total);
    if (query < search.queries) {
      sort.begins[query] = sort.device_begins[query] = at;
      sort.counts[query] = 0;
    }
    before += total;
  }
  if (threadIdx.x != 0) return;
  sort.begins[search.queries] = before;
  *sort.found = *search.found;
}

__global__ void __launch_bounds__(kThreads)
    place_kernel(const __grid_constant__ EditSearchView search, EditSortView sort) {
  for_hits(search, [&](const Hit& hit, unsigned lanes) {
    const std::uint32_t at =
        sort.device_begins[hit.query] + count_one(sort.counts, hit.query, lanes);
    sort.sorted[at] = std::uint64_t{hit.place} << 32 | hit.distance;
  });
}

}  // namespace

void launch_edit_sort(const EditSearchView& search, const EditSortView& sort, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(
      std::min<std::uint64_t>(kMostBlocks, (search.room + kThreads - 1) / kThreads));
  count_kernel<<<blocks, kThreads, 0, stream>>>(search, sort);
  begins_kernel<<<1, kScanThreads, 0, stream>>>(search, sort);
  place_kernel<<<blocks, kThreads, 0, stream>>>(search, sort);
  check_launch("sorting hits");
}

}  // namespace warplite::gpu

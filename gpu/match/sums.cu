// A query of very many items: several thread blocks share out its items, and add to sums in global
// memory.
#include <algorithm>

#include "gpu/match/lists.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
// Postings that a thread block adds: a few milliseconds' worth, after which it asks whether the
// search was cancelled.
constexpr std::uint32_t kMostAdded = std::uint32_t{1} << 23;

__global__ void __launch_bounds__(kThreads)
    sum_kernel(const __grid_constant__ MatchSearchView search, std::uint32_t items,
               std::uint32_t each) {
  __shared__ MatchLists<kThreads> lists;
  const std::uint32_t stop = threadIdx.x == 0 ? __ldcg(search.stop) : 0;
  const MatchTileView tile = search.tiles[blockIdx.x % search.tile_count];
  const std::uint32_t at = blockIdx.x / search.tile_count * each;
  if (__syncthreads_or(static_cast<int>(stop)) != 0) return;
  std::uint32_t* const sums =
      search.sums + std::size_t{blockIdx.x % search.tile_count} * compute::kTileRows;
  const auto add = [sums](std::uint32_t row, std::uint32_t weight, bool valid) {
    if (valid) atomicAdd(sums + (row & 0xffffu), weight);
  };
  lists.find(tile, search.items + at, min(items - at, each), add);
  lists.for_postings(tile.postings, add);
}

}  // namespace

void launch_match_sums(const MatchSearchView& search, std::uint32_t items, std::uint32_t most,
                       cudaStream_t stream) {
  const std::uint32_t each = std::clamp(kMostAdded / std::max(most, 1u), 1u, kThreads);
  const std::uint32_t blocks = (items + each - 1) / each * search.tile_count;
  if (blocks == 0) return;
  sum_kernel<<<blocks, kThreads, 0, stream>>>(search, items, each);
  check_launch("adding up matches");
}

}  // namespace warplite::gpu

// Makes hits of distances, and lets thresholds fall. Functions are called by whole warps; a lane
// has a text, and its distances from kQueries queries from `first` on.
#pragma once

#include <cstdint>

#include "gpu/edit/edit.h"

namespace warplite::gpu {

// The group's text that is the lane's.
struct EditText {
  std::uint32_t tile, row;
  bool counts;  // there is one, and its row lives

  __device__ EditText(const EditTileView& view, std::uint32_t number, std::uint32_t group)
      : tile(number) {
    const std::uint32_t place = group * compute::kEditGroup + threadIdx.x % 32;
    counts = place < view.texts;
    row = counts ? view.rows[place] : 0;
    if (counts && view.live != nullptr) counts = (view.live[row / 64] >> (row % 64) & 1) != 0;
  }
};

// The largest distance of the first bin with which `k` hits are reached; ~0: none. `tally` gives
// the number of hits in a bin below `bins`.
template <typename Tally>
__device__ std::uint32_t tallied_threshold(const Tally& tally, std::uint32_t bins, std::uint32_t k,
                                           unsigned shift) {
  const unsigned lane = threadIdx.x % 32;
  std::uint32_t before = 0;
  for (std::uint32_t first = 0; first < bins; first += 32) {
    std::uint32_t sum = first + lane < bins ? tally(first + lane) : 0;
    for (unsigned step = 1; step < 32; step *= 2) {
      const std::uint32_t below = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += below;
    }
    const unsigned reached = __ballot_sync(~0u, before + sum >= k);
    if (reached != 0) {
      return ((first + static_cast<std::uint32_t>(__ffs(static_cast<int>(reached)))) << shift) - 1;
    }
    before += __shfl_sync(~0u, sum, 31);
  }
  return ~0u;
}

// Counts a hit of each lane that is `near`, and lowers the query's threshold if it may fall.
__device__ inline void tally_hits(const EditSearchView& search, std::uint32_t query, bool near,
                                  std::uint32_t distance, std::uint32_t threshold) {
  std::uint32_t* const tally = search.tallies + std::size_t{query} * kEditBins;
  if (near) atomicAdd(tally + min(distance >> search.shift, kEditBins - 1), 1u);
  __threadfence();
  __syncwarp();
  const std::uint32_t bins = min((threshold >> search.shift) + 1, kEditBins - 1);
  const std::uint32_t lower = tallied_threshold(
      [tally](std::uint32_t bin) { return __ldcg(tally + bin); }, bins, search.k, search.shift);
  if (lower < threshold && threadIdx.x % 32 == 0) atomicMin(search.thresholds + query, lower);
}

// Adds a hit for each set bit, one of the kQueries queries, of `hits`.
template <unsigned kQueries>
__device__ void append_hits(const EditSearchView& search, const EditText& text, std::uint32_t first,
                            std::uint32_t hits, const std::uint32_t (&distances)[kQueries]) {
  const unsigned lane = threadIdx.x % 32;
  const auto own = static_cast<std::uint32_t>(__popc(hits));
  std::uint32_t sum = own;
  for (unsigned step = 1; step < 32; step *= 2) {
    const std::uint32_t below = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += below;
  }
  unsigned long long at = 0;
  if (lane == 31) at = atomicAdd(search.found, static_cast<unsigned long long>(sum));
  at = __shfl_sync(~0u, at, 31) + (sum - own);
  const std::uint64_t place = static_cast<std::uint64_t>(text.tile << 16 | text.row) << 32;
#pragma unroll
  for (unsigned i = 0; i < kQueries; ++i) {
    if ((hits >> i & 1) == 0) continue;
    const std::uint64_t query =
        search.distance_bits == 32 ? 0 : static_cast<std::uint64_t>(first + i) << 16;
    if (at < search.room) search.hits[at] = place | query | distances[i];
    ++at;
  }
}

// `threshold`: of query first + i in lane i.
template <unsigned kQueries>
__device__ void take_distances(const EditSearchView& search, const EditText& text,
                               std::uint32_t first, std::uint32_t threshold,
                               const std::uint32_t (&distances)[kQueries]) {
  std::uint32_t hits = 0;
#pragma unroll
  for (unsigned i = 0; i < kQueries; ++i) {
    const std::uint32_t most = __shfl_sync(~0u, threshold, i);
    const bool hit = first + i < search.queries && distances[i] <= most &&
                     distances[i] >= search.least;
    hits |= (hit ? 1u : 0u) << i;
  }
  if (!text.counts) hits = 0;
  if (!__any_sync(~0u, hits != 0)) return;
  append_hits<kQueries>(search, text, first, hits, distances);
  if (search.k == 0) return;
#pragma unroll
  for (unsigned i = 0; i < kQueries; ++i) {
    const std::uint32_t most = __shfl_sync(~0u, threshold, i);
    const bool near = (hits >> i & 1) != 0 && distances[i] < most;
    if (__any_sync(~0u, near)) tally_hits(search, first + i, near, distances[i], most);
  }
}

}  // namespace warplite::gpu

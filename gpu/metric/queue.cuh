// Rows that may be hits, on their way through the canonical distance to the list of hits. Each warp
// has a queue in shared memory, so that it scores 32 rows at a time whatever came of its lanes.
#pragma once

#include "gpu/metric/totals.cuh"
#include "gpu/rows/row_score.cuh"

namespace warplite::gpu {

inline constexpr unsigned kMetricThreads = 256;
inline constexpr unsigned kMetricWarps = kMetricThreads / 32;
inline constexpr unsigned kMetricAtOnce = 4;  // queries that a warp compares with a row

template <ElementType kType, Distance kDistance>
struct MetricQueue {
  struct Entry {
    std::uint32_t row, query;  // of the block; of the tile
  };
  // Less than 32 wait when rows are pushed.
  Entry entries[32 + 32 * kMetricAtOnce];
  unsigned size;  // written by the first lane

  __device__ void begin() {
    if (threadIdx.x % 32 == 0) size = 0;
    __syncwarp();
  }

  // A row of each lane for which `take` holds. Called by whole warps.
  __device__ void push(bool take, std::uint32_t row, std::uint32_t query) {
    const unsigned lanes = __ballot_sync(kWholeWarp, take);
    if (lanes == 0) return;
    const unsigned lane = threadIdx.x % 32, before = size;
    if (take) entries[before + __popc(lanes & ((1u << lane) - 1))] = {row, query};
    __syncwarp();
    if (lane == 0) size = before + static_cast<unsigned>(__popc(lanes));
    __syncwarp();
  }

  // Scores rows until less than 32 are left, or none.
  __device__ void drain(const MetricSearchView& search, const RowBlock& block,
                        std::uint32_t first_query, bool all) {
    unsigned left = size;
    while (left >= 32 || (all && left != 0)) {
      const unsigned count = min(left, 32u);
      left -= count;
      score(search, block, first_query, left, count);
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) size = left;
    __syncwarp();
  }

 private:
  // Entries [first, first + count), each by four lanes. Lane i gets the distance of entry i.
  __device__ void score(const MetricSearchView& search, const RowBlock& block,
                        std::uint32_t first_query, unsigned first, unsigned count) {
    const unsigned lane = threadIdx.x % 32;
    double own = 0;
#pragma unroll 1
    for (unsigned round = 0; round < kLanesPerRow; ++round) {
      const unsigned i = round * (32 / kLanesPerRow) + lane / kLanesPerRow;
      const bool active = i < count;
      QueryTerms terms = search.terms;
      const std::byte* row = nullptr;
      terms.slots[0] = first_query;
      if (active) {
        const Entry entry = entries[first + i];
        terms.slots[0] = first_query + entry.query;
        row = block.vectors + std::size_t{entry.row} * search.table.stride;
      }
      double found[1];
      RowScore<kType, kDistance, 1>::run(search.table, terms, row, active, found);
      const double mine =
          __shfl_sync(kWholeWarp, found[0], static_cast<int>(lane % 8 * kLanesPerRow));
      if (lane / 8 == round) own = mine;
    }
    const Entry entry = entries[first + min(lane, count - 1)];
    append(search, block, first_query + entry.query, entry.row, own,
           lane < count && contains(search.bounds, own));
  }

  static __device__ bool contains(const Bounds& bounds, double d) {
    return (bounds.low_open ? d > bounds.low : d >= bounds.low) &&
           (bounds.high_open ? d < bounds.high : d <= bounds.high);
  }

  static __device__ void append(const MetricSearchView& search, const RowBlock& block,
                                std::uint32_t query, std::uint32_t row, double distance, bool hit) {
    const unsigned lanes = __ballot_sync(kWholeWarp, hit);
    if (lanes == 0) return;
    const unsigned lane = threadIdx.x % 32, below = lanes & ((1u << lane) - 1);
    unsigned long long at = 0;
    if (lane == 0) {
      at = atomicAdd(search.found, static_cast<unsigned long long>(__popc(lanes)));
    }
    at = __shfl_sync(kWholeWarp, at, 0) + static_cast<unsigned>(__popc(below));
    if (!hit) return;
    if (at < search.room) search.hits[at] = {distance, query, block.first_ordinal + row};
    const unsigned peers = __match_any_sync(lanes, query);
    if (static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1) == lane) {
      atomicAdd(search.counts + query, static_cast<std::uint32_t>(__popc(peers)));
    }
  }
};

// False for places without a row: radii beyond float32 let them through every other test.
__device__ inline bool lives(const RowBlock& block, std::uint32_t row) {
  if (row == compute::kNoRow) return false;
  return block.live == nullptr || (__ldg(block.live + row / 64) >> (row % 64) & 1) != 0;
}

// Rows without bounds are compared with all queries of the tile. Returns how many there are.
template <ElementType kType, Distance kDistance>
__device__ unsigned push_outliers(const MetricSearchView& search, const MetricBlockView& view,
                                  const RowBlock& block, std::uint32_t first_query,
                                  MetricQueue<kType, kDistance>& queue) {
  const unsigned lane = threadIdx.x % 32;
  unsigned compared = 0;
  for (std::uint32_t i = threadIdx.x / 32; i < view.outlier_count; i += kMetricWarps) {
    const std::uint32_t row = view.outliers[i];
    if (!lives(block, row)) continue;
    queue.push(first_query + lane < search.queries, row, lane);
    queue.drain(search, block, first_query, false);
    compared += min(search.queries - first_query, kMetricTile);
  }
  return compared;
}

// Thread blocks for all tiles of queries and blocks of rows, these in up to `most` parts.
inline dim3 metric_grid(const MetricSearchView& search, unsigned most) {
  constexpr unsigned kUseful = 512;
  const unsigned tiles = (search.queries + kMetricTile - 1) / kMetricTile;
  const unsigned parts = kUseful / (tiles * search.table.block_count);
  return {tiles, search.table.block_count, parts < 1 ? 1 : parts > most ? most : parts};
}

}  // namespace warplite::gpu

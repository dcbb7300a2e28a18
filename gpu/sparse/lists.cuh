// The lists of a tile that a query asks for, found by one thread block, and what they come to.
#pragma once

#include <cstdint>

#include "compute/sparse/postings.h"
#include "compute/sparse/scale.h"
#include "gpu/sparse/sparse.h"

namespace warplite::gpu {

inline constexpr unsigned kSparseLanes = 32;

// Lists in shared memory; every member that says so is called by all threads.
template <unsigned kThreads>
struct SparseLists {
  static constexpr unsigned kWarps = kThreads / kSparseLanes;
  static constexpr std::uint32_t kMost = compute::kMostSparseLists;
  static constexpr std::uint32_t kColumn = ~std::uint32_t{0};

  struct List {
    double each;               // what an impact of 1 adds to S; below 0: takes off
    std::uint32_t begin, end;  // postings; the column's number and kColumn
  };

  List lists[kMost];
  std::uint32_t count;
  double most[kWarps], least[kWarps];
  std::uint32_t added[kWarps];

  // Finds them, of which there may be more than kMost. By all threads.
  __device__ void find(const SparseTileView& tile, const SparseEntry* entries,
                       std::uint32_t number) {
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < number; i += kThreads) {
      const SparseEntry entry = entries[i];
      if (entry.value == 0) continue;
      const double weight = entry.value;
      find_key(tile, 2 * entry.index, weight);
      if (tile.negative != 0) find_key(tile, 2 * entry.index + 1, -weight);
    }
    __syncthreads();
  }

  // By all threads. `share`: of what they take off, how much counters lose. REQUIRES: count ≤ kMost
  __device__ compute::SparseScale scale(const SparseTileView& tile, double& share) {
    double adds = 0, takes = 0;
    std::uint32_t number = 0;
    for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
      const double all = compute::kMostSparseImpact * lists[i].each;
      (all > 0 ? adds : takes) += fabs(all);
      number += all > 0 ? 1 : 0;
    }
    for (unsigned step = kSparseLanes / 2; step > 0; step /= 2) {
      adds += __shfl_xor_sync(~0u, adds, static_cast<int>(step));
      takes += __shfl_xor_sync(~0u, takes, static_cast<int>(step));
      number += __shfl_xor_sync(~0u, number, static_cast<int>(step));
    }
    const unsigned warp = threadIdx.x / kSparseLanes;
    if (threadIdx.x % kSparseLanes == 0) {
      most[warp] = adds;
      least[warp] = takes;
      added[warp] = number;
    }
    __syncthreads();
    adds = takes = 0;
    number = 0;
    for (unsigned i = 0; i < kWarps; ++i) {
      adds += most[i];
      takes += least[i];
      number += added[i];
    }
    // Counters have no room for more to be taken off than what can be added.
    share = takes > adds ? adds / takes : 1;
    return compute::sparse_scale(adds, takes, number, count, tile.widest);
  }

 private:
  __device__ void find_key(const SparseTileView& tile, std::uint32_t key, double weight) {
    const std::uint32_t column = lower_bound(tile.column_keys, 0, tile.column_count, key);
    if (column < tile.column_count && tile.column_keys[column] == key) {
      return add({weight * tile.column_steps[column], column, kColumn});
    }
    const std::uint32_t bucket = key >> tile.shift;
    if (bucket >= compute::kSparseBuckets) return;
    const std::uint32_t end = tile.buckets[bucket + 1];
    const std::uint32_t list = lower_bound(tile.list_keys, tile.buckets[bucket], end, key);
    if (list == end || tile.list_keys[list] != key) return;
    add({weight * tile.list_steps[list], tile.begins[list], tile.begins[list + 1]});
  }

  __device__ void add(const List& list) {
    const std::uint32_t at = atomicAdd(&count, 1u);
    if (at < kMost) lists[at] = list;
  }

  // The first of keys[low … high − 1] that is not below the key.
  __device__ static std::uint32_t lower_bound(const std::uint32_t* keys, std::uint32_t low,
                                              std::uint32_t high, std::uint32_t key) {
    while (low < high) {
      const std::uint32_t middle = (low + high) / 2;
      if (keys[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

// So many rows of a strip have counters: all, in whole ranges.
__device__ inline std::uint32_t sparse_strip_rows(const SparseTileView& tile, std::uint32_t first) {
  return min(kSparseStrip, tile.padded_rows - first);
}

}  // namespace warplite::gpu

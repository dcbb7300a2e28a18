// Sums over the threads of a block, in their order.
#pragma once

#include <cub/block/block_scan.cuh>

namespace warplite::gpu {

template <unsigned kThreads, typename T>
using BlockScan = cub::BlockScan<T, static_cast<int>(kThreads), cub::BLOCK_SCAN_WARP_SCANS>;
// What a sum needs in shared memory.
template <unsigned kThreads, typename T = unsigned>
using BlockSums = typename BlockScan<kThreads, T>::TempStorage;

// Sum of the values of the threads before this one, and of all. Every thread calls this.
template <unsigned kThreads, typename T>
__device__ inline T exclusive_sum(T value, BlockSums<kThreads, T>& sums, T& total) {
  T before;
  BlockScan<kThreads, T>(sums).ExclusiveSum(value, before, total);
  __syncthreads();
  return before;
}

}  // namespace warplite::gpu

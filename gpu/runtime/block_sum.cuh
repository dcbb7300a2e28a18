// Sums over the threads of a block, in their order.
#pragma once

#include <cub/block/block_scan.cuh>

namespace warplite::gpu {

template <unsigned kThreads>
using BlockScan =
    cub::BlockScan<unsigned, static_cast<int>(kThreads), cub::BLOCK_SCAN_WARP_SCANS>;
// What a sum needs in shared memory.
template <unsigned kThreads>
using BlockSums = typename BlockScan<kThreads>::TempStorage;

// Sum of the values of the threads before this one, and of all. Every thread calls this.
template <unsigned kThreads>
__device__ inline unsigned exclusive_sum(unsigned value, BlockSums<kThreads>& sums,
                                         unsigned& total) {
  unsigned before;
  BlockScan<kThreads>(sums).ExclusiveSum(value, before, total);
  __syncthreads();
  return before;
}

}  // namespace warplite::gpu

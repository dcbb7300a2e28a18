// Sums over the threads of a block.
#pragma once

#include <cstdint>

namespace warplite::gpu {

// Sum of the values of the threads before this one, and of all. `sums` is shared memory for
// kThreads / 32 numbers. Every thread calls this.
template <unsigned kThreads>
__device__ inline unsigned exclusive_sum(unsigned value, unsigned* sums, unsigned& total) {
  constexpr unsigned kWarp = 32;
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  unsigned sum = value;
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const unsigned below = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += below;
  }
  if (lane == kWarp - 1) sums[warp] = sum;
  __syncthreads();
  unsigned before = 0;
  total = 0;
  for (unsigned i = 0; i < kThreads / kWarp; ++i) {
    if (i < warp) before += sums[i];
    total += sums[i];
  }
  __syncthreads();
  return before + sum - value;
}

}  // namespace warplite::gpu

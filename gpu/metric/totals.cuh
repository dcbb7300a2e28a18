// How a thread block counts what it did.
#pragma once

#include "gpu/metric/metric.h"

namespace warplite::gpu {

// Adds what the block's warps counted, of which their first lanes have each one's, to the search's.
// Called by the whole thread block; `shared`: 0 before.
__device__ inline void add_totals(const MetricTotals& of_warp, MetricTotals& shared,
                                  MetricTotals* all) {
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&shared.distances, of_warp.distances);
    atomicAdd(&shared.clusters, of_warp.clusters);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(&all->distances, shared.distances);
    atomicAdd(&all->clusters, shared.clusters);
  }
}

}  // namespace warplite::gpu

// Kernels of selection by threshold (threshold_search.h): limits from a sample or from what the
// host has found, and canonical distances of nominees for the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/batch/nominate.h"

namespace warplite::gpu {

// Lowers each query's limit to the k-th least upper bound in `sample`, which keep_all filled:
// sample.bounds has `rows` of each query, sample.limits are those of the search.
void launch_bound(const Nominees& sample, std::uint32_t rows, cudaStream_t stream);

// Lowers limits to what rows at the distances farthest[query] can have; infinity: not at all.
void launch_lower(const Nominees& nominees, const PreparedQueries& prepared, Distance distance,
                  const double* farthest, cudaStream_t stream);

// masked[query] = the limit of a chosen query, or what nothing is within.
void launch_mask(const Nominees& nominees, std::uint32_t tile_queries, const std::uint32_t* chosen,
                 float* masked, cudaStream_t stream);

// Canonical distances of all nominees, in any order. found[q] nominees of a query are in
// out[q · capacity …]; more than the capacity: none are.
struct Measure {
  RowTable table;
  ElementType type;
  Distance distance;
  PreparedQueries prepared;
  Nominees nominees;
  const std::uint32_t* ordinals;  // as Rescore has them
  Candidate* out;                 // mapped memory
  std::uint32_t* found;           // mapped memory
};
void launch_measure(const Measure& work, cudaStream_t stream);

}  // namespace warplite::gpu

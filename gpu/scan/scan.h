// Comparing a few queries with every row, canonically: the path that is exact by construction.
// One pass reads every live row once for every kScanQueries queries, and leaves each row's
// distance and the least distance of every group of rows. k groups whose least distance is at
// most T hold k rows that are, so T bounds the k-th distance; pick() finds such a T among the
// groups and collects the few rows within it.
// Launches only; work is done when the stream gets there. Pointers are device addresses, or
// mapped pinned memory where said.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/distance.h"
#include "gpu/rows/row_table.h"

namespace warplite::gpu {

struct Scan {
  RowTable table;
  ElementType type;
  Distance distance;
  Bounds bounds;
  unsigned queries;       // 1, or a multiple of kScanQueries
  QueryTerms terms;
  double* distances;      // [queries][table.rows]; +inf: not live, or out of bounds
  float* least;           // [queries][table.groups], rounded up
  // Groups that are compared, so that no launch takes long; those of all launches together are all.
  std::uint32_t first_group, groups;
};
void launch_scan(const Scan& scan, cudaStream_t stream);

// `found[q]` counts the rows within the threshold, and the first `capacity` of them are in
// `candidates[q·capacity …]`, in any order. More than the capacity: ask sort() instead.
struct Pick {
  RowTable table;
  unsigned queries;
  std::uint32_t k;
  const double* distances;
  const float* least;
  std::uint32_t* chosen;  // [queries][table.groups], scratch
  std::uint32_t capacity;
  Candidate* candidates;  // mapped memory
  std::uint32_t* found;   // mapped memory
};
void launch_pick(const Pick& pick, cudaStream_t stream);

// The rows of one query that are in bounds: how many, then all of them, in any order.
void launch_count(const double* distances, std::uint32_t rows, std::uint32_t* count,
                  cudaStream_t stream);
void launch_emit(const double* distances, const RowTable& table, Candidate* out,
                 std::uint32_t* count, cudaStream_t stream);

// Rows named by ordinals, where they lie; `out` is mapped memory.
void launch_locate(const double* distances, const std::uint32_t* ordinals, std::uint32_t count,
                   const RowTable& table, Candidate* out, cudaStream_t stream);

// Success when the kernels were compiled for the thread's current GPU.
cudaError_t kernels_run_here();

}  // namespace warplite::gpu

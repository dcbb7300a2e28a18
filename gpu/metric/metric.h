// Metric indexes of vectors (compute/metric.h) as kernels see them, and the steps of a search for
// all within a radius. Plain data, the same for host and device code; pointers are device addresses
// unless they say otherwise.
//
// A thread block takes kMetricTile queries and one block of rows. Clusters: their centres, so many
// at a time, are compared with all of these queries in float32; warps then take the clusters that
// some query's ball touches, and compare members with four such queries at once. Pivots: tables
// leave a few rows. Either way a row that may be near enough waits in the warp's queue for its
// canonical distance. Hits go into one list, and are then sorted by query.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "compute/metric.h"
#include "gpu/rows/row_table.h"
#include "gpu/select/hit_sort.h"

namespace warplite::gpu {

inline constexpr std::uint32_t kMetricTile = 32;
// Limits the number of pivots; more would cost more than they spare.
inline constexpr std::uint32_t kMostMetricPivots = 64;

// A VectorMetric for kernels, with members of the same names.
struct MetricBlockView {
  std::uint32_t count;        // clusters, or pivots
  std::uint32_t places;       // of pivots
  const float* points;        // centres, or pivots
  const float* cover;         // [whole groups]
  const float* inner;         // [count]
  const std::uint32_t* begins;
  const float* members;
  const std::uint32_t* rows;
  const float* rings;         // of clusters; of pivots: the table
  const std::uint32_t* outliers;
  std::uint32_t outlier_count;
  bool pivots;
};

struct MetricHit {
  double distance;
  std::uint32_t query, ordinal;
};

// Added up over all queries; see compute::SearchCounters.
struct MetricTotals {
  unsigned long long distances, clusters;
};

struct MetricSearchView {
  RowTable table;
  const MetricBlockView* blocks;  // of each block of the table
  ElementType type;
  Distance distance;
  compute::Slack slack;
  double radius;                  // of the space
  float near;                     // rows whose float32 distance is greater are no hits
  const float* points;            // [tiles][dim][kMetricTile] queries as coordinates of the space
  std::uint32_t queries;
  QueryTerms terms;
  Bounds bounds;
  const std::uint32_t* stop;      // not 0 once the search was cancelled
  MetricHit* hits;                // [room]
  std::uint64_t room;
  unsigned long long* found;      // of hits, those without room too; 0 before
  std::uint32_t* counts;          // [queries] the same for each; 0 before
  MetricTotals* totals;
};
// Each takes the blocks whose index is of its kind.
void launch_metric_clusters(const MetricSearchView& search, cudaStream_t stream);
void launch_metric_pivots(const MetricSearchView& search, cudaStream_t stream);

// Sorts hits by query: those of query q into sorted[begins[q] … begins[q + 1] − 1], where all had
// room. `totals`: memory that the host reads, for a copy of the search's.
void launch_metric_sort(const MetricSearchView& search, const HitCounts& hits, Candidate* sorted,
                        MetricTotals* totals, cudaStream_t stream);

}  // namespace warplite::gpu

// Metric indexes of texts (compute/edit_metric.h) as kernels see them, and what a search compares
// through them in place of launch_edit_scan() (gpu/edit/edit.h). Plain data, the same for host and
// device code; pointers are device addresses. Tiles of symbols of one byte only.
//
// A thread block takes some queries and one tile, or a part of it. Clusters: a warp compares 32
// centres with these queries, several at a time as a scan does; of each cluster that some query's
// ball touches, it takes the members that rings and lengths do not keep from it. Pivots: it looks
// what tables leave of 32 texts for four queries. Either way pairs of a text and a query wait in a
// queue of the warp until there is one for each lane. Hits wait in another.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "compute/edit_metric.h"
#include "gpu/edit/edit.h"
#include "gpu/metric/metric.h"

namespace warplite::gpu {

struct MetricGroupsView {
  const std::uint32_t* begins;
  const std::uint16_t* lengths;
  const std::uint8_t* symbols;
};

// A TextMetric for kernels, with members of the same names.
struct MetricTextsView {
  std::uint32_t count;          // clusters, or pivots
  std::uint32_t groups;         // of members
  MetricGroupsView points;      // centres, or pivots
  MetricGroupsView members;
  const std::uint16_t* cover;
  const std::uint16_t* inner;
  const std::uint32_t* begins;
  const std::uint16_t* rows;
  const std::uint16_t* rings;
  const std::uint8_t* table;    // of pivots
  bool pivots;
};

// Longer queries are compared with all texts.
inline constexpr std::uint32_t kMostMetricWords = 4;

// Finds the hits in tiles [0, tiles), `metrics` of each of them. REQUIRES: search.k == 0
struct MetricTextSearch {
  EditSearchView search;
  const MetricTextsView* metrics;
  MetricTotals* totals;
  std::uint32_t tiles;
  std::uint32_t symbols;        // of the largest alphabet
};
// Each takes the tiles whose index is of its kind.
void launch_metric_text_clusters(const MetricTextSearch& search, std::uint32_t words,
                                 cudaStream_t stream);
void launch_metric_text_pivots(const MetricTextSearch& search, std::uint32_t words,
                               cudaStream_t stream);

}  // namespace warplite::gpu

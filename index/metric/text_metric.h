// Builders of the metric indexes of texts under edit distance (compute/edit_metric.h).
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>

#include "compute/edit_metric.h"

namespace warplite::index {

// List of Clusters of so many texts (metric-range §II-A). REQUIRES: size ≥ 1
std::unique_ptr<compute::TextMetricBuilder> make_text_clusters(std::uint32_t size);

// Sparse spatial selection (metric-range §II-B): pivots that are at least alpha · M from each other,
// M being the largest distance of two texts, about. REQUIRES: 0 < alpha ≤ 1
std::unique_ptr<compute::TextMetricBuilder> make_text_pivots(double alpha);

}  // namespace warplite::index

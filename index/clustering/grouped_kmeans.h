// k-means of many clusters by groups of them (kmeans.h).
// The same result on every device, with any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "index/clustering/kmeans.h"

namespace warplite::index {

// As kmeans(). REQUIRES: clusters > 3
std::vector<float> grouped_kmeans(const TrainingTask& task, const SampleView& sample,
                                  std::uint32_t clusters);

}  // namespace warplite::index

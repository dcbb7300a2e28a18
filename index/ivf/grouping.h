// Groups of centroids, for whatever looks at groups first and then at the lists of a few: k-means of
// the centroids, and then nobody has too many.
// The same groups on every device, with any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/ivf/training_task.h"

namespace warplite::index {

// The group of each of `lists` centroids, [lists][dim]: 0 … groups − 1, each with at most twice as
// many as on average, rounded up. A group may be empty.
// REQUIRES: lists > 0, groups > 0. Throws Error{kInterrupted}.
std::vector<std::uint32_t> group_centroids(const TrainingTask& task, const float* centroids,
                                           std::uint32_t lists, std::uint32_t dim,
                                           std::uint32_t groups);

}  // namespace warplite::index

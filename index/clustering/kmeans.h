// k-means with exact assignment on a device. Results depend on the rows alone.
// Up to kMostTogether clusters: Lloyd's algorithm (lloyd.h), six iterations on 32 rows per cluster,
// four on 128 and four on 256.
// More: about √clusters groups are found in that way, each gets clusters by its rows and their
// distances from its centre, and finds them among its own rows. Then a few iterations compare every
// row with the clusters of its group and of those nearest to it. So work grows with rows · √clusters.
// Seconds of a core (Sapphire Rapids) for rows × clusters of 128 dimensions, by groups and all together:
//   50,000 × 894 (SIFT)  0.46, 1.33      1,000,000 × 4,000   12.7, 53.9
//   300,000 × 2,191      3.2, 12.9       1,000,000 × 16,384  22.6
// A twentieth of it finds groups, a third their clusters, the rest are three iterations. As many of
// the ten nearest are among as many rows (of the 300,000: 0.81 in 4 %, and 0.80), and lists are more
// equal: the longest has 2.4 instead of 2.8 times the mean (SIFT: 3.5 instead of 4.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/training_task.h"

namespace warplite::index {

// Rows as float32, dense, in an order that is random.
struct SampleView {
  const float* data = nullptr;
  std::size_t rows = 0;
  std::uint32_t dim = 0;

  const float* row(std::size_t i) const { return data + i * dim; }
  SampleView first(std::size_t n) const { return {data, n < rows ? n : rows, dim}; }
};

// 0 … count − 1 in an order that is random, but always the same; the first `wanted` of it.
std::vector<std::size_t> random_order(std::size_t count, std::size_t wanted);

// A cluster that has no rows, and the row of another that it shall begin anew with: the n-th of
// the members of `donor`.
struct Reseed {
  std::uint32_t empty, donor, member;
};
// Finds for each empty cluster a donor, from the largest cluster on; each halves its donor. The
// result is in the order of `empty`.
std::vector<Reseed> reseed_empty(std::vector<std::uint32_t> counts);

// Rows per cluster that are of use; more are not looked at.
inline constexpr std::size_t kKmeansRows = 256;
inline constexpr std::uint32_t kMostTogether = 255;  // clusters that are found without groups

// Centroids [n][dim], n <= clusters: as many as there are different rows, when those are fewer,
// and without those that end up with no row. `roughly`: others will move them further, so that as many rows
// are not gone over in two stages.
std::vector<float> kmeans(const TrainingTask& task, const SampleView& sample,
                          std::uint32_t clusters, bool roughly = false);

}  // namespace warplite::index

// Lloyd's k-means with exact assignment on a device. Results depend on the rows and the seed
// alone: sums are taken in double, in the order of the rows.
// Six iterations on 32 rows per cluster, four on 128 and four on 256. On 200,000 × 128 SIFT-like
// rows, 1,024 lists: recall@10 of m = 32 at nprobe 16 / 64 is 0.800 / 0.819, as Faiss has with ten
// iterations on 256 (0.802 / 0.819); without the last four, and with fewer in pq.h, 0.790 / 0.811.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/ivf/training_task.h"

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

// Centroids [n][dim], n <= clusters: as many as there are different rows, when those are fewer,
// and without those that end up with no row.
std::vector<float> kmeans(const TrainingTask& task, const SampleView& sample,
                          std::uint32_t clusters);

}  // namespace warplite::index

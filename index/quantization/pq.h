// The product quantiser: m codebooks, each for one slice of a vector.
// papers/faiss-gpu-2017 §2; the arithmetic of assignment is compute::PqAssignWork's.
// Training is k-means in each sub-space; results depend on the sample alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/clustering/kmeans.h"
#include "index/training_task.h"

namespace warplite::index {

struct Codebooks {
  std::uint32_t dim, m, codewords;
  std::vector<float> values;  // [m][codewords][dim / m]

  std::uint32_t sub_dim() const { return dim / m; }
  const float* word(std::uint32_t space, std::uint32_t j) const {
    return values.data() + (std::size_t{space} * codewords + j) * sub_dim();
  }
  float* word(std::uint32_t space, std::uint32_t j) {
    return values.data() + (std::size_t{space} * codewords + j) * sub_dim();
  }
};

// The codewords that `codes`, [m], name: [m · sub_dim].
void decode_codes(const float* codebooks, std::uint32_t m, std::uint32_t codewords,
                  std::uint32_t sub_dim, const std::uint8_t* codes, float* out);

// [rows][m]
std::vector<std::uint8_t> assign(const TrainingTask& task, const SampleView& sample,
                                 const Codebooks& codebooks);

// Codewords are different slices of the first rows; fewer slices than codewords leave zeros.
Codebooks begin_codebooks(const SampleView& sample, std::uint32_t m, std::uint32_t codewords);
// One iteration of k-means: codewords go to the means of their slices, with `reach` < 1 less, > 1 farther.
void improve(const TrainingTask& task, const SampleView& sample, double reach,
             Codebooks* codebooks);

// Rows that are of use; more are not looked at.
inline constexpr std::size_t kCodebookRows = 65536;

// REQUIRES: m divides sample.dim; sample.rows > 0.
Codebooks train_codebooks(const TrainingTask& task, const SampleView& sample, std::uint32_t m,
                          std::uint32_t codewords);

}  // namespace warplite::index

#include "index/quantization/pq.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "compute/host/parallel.h"

namespace warplite::index {
namespace {

// Rows, iterations on them, and how far codewords go to the mean of their slices, which is 1 away: most of the
// way is made on few rows. With the same slices a codeword that goes less than twice as far as the mean loses
// nothing, and slices that find another one gain; the last iteration goes to the mean itself. So 18 iterations
// lose less than 30 did that went to the mean each time: of 50,000 SIFT descriptors 11,413 instead of 11,424
// (m=16), 753 instead of 763 (m=64), in half the time.
struct Stage {
  std::size_t rows, iterations;
  double reach;
};
constexpr Stage kStages[] = {
    {kCodebookRows / 4, 10, 1.9}, {kCodebookRows, 7, 1.9}, {kCodebookRows, 1, 1}};
constexpr std::size_t kIterations = 18;  // of all stages
constexpr double kLargest = std::numeric_limits<float>::max();  // beyond which a codeword may not go

void begin_space(const SampleView& sample, std::uint32_t space, Codebooks* codebooks) {
  const std::uint32_t sub_dim = codebooks->sub_dim();
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < sample.rows && seen.size() < codebooks->codewords; ++i) {
    const float* slice = sample.row(i) + std::size_t{space} * sub_dim;
    const std::string_view bytes(reinterpret_cast<const char*>(slice), sub_dim * sizeof(float));
    const auto word = static_cast<std::uint32_t>(seen.size());
    if (seen.insert(bytes).second) std::copy_n(slice, sub_dim, codebooks->word(space, word));
  }
}

// Moves the codewords of one sub-space by `reach` of the way to the means of their slices.
void move_space(const SampleView& sample, const std::uint8_t* codes, std::uint32_t space,
                double reach, Codebooks* codebooks) {
  const std::uint32_t sub_dim = codebooks->sub_dim(), m = codebooks->m;
  const std::size_t at = std::size_t{space} * sub_dim;
  std::vector<double> sums(std::size_t{codebooks->codewords} * sub_dim);
  std::vector<std::uint32_t> counts(codebooks->codewords);
  for (std::size_t i = 0; i < sample.rows; ++i) {
    const std::uint8_t code = codes[i * m + space];
    double* sum = sums.data() + std::size_t{code} * sub_dim;
    const float* slice = sample.row(i) + at;
    for (std::uint32_t d = 0; d < sub_dim; ++d) sum[d] += static_cast<double>(slice[d]);
    ++counts[code];
  }
  for (std::uint32_t j = 0; j < codebooks->codewords; ++j) {
    float* const word = codebooks->word(space, j);
    for (std::uint32_t d = 0; d < sub_dim && counts[j] != 0; ++d) {
      const double mean = sums[std::size_t{j} * sub_dim + d] / counts[j];
      const double beyond = mean + (reach - 1) * (mean - static_cast<double>(word[d]));
      word[d] = static_cast<float>(std::clamp(beyond, -kLargest, kLargest));
    }
  }
  for (const Reseed& reseed : reseed_empty(std::move(counts))) {
    std::uint32_t members = 0;
    for (std::size_t i = 0; i < sample.rows; ++i) {
      if (codes[i * m + space] != reseed.donor || members++ != reseed.member) continue;
      std::copy_n(sample.row(i) + at, sub_dim, codebooks->word(space, reseed.empty));
      break;
    }
  }
}

}  // namespace

void decode_codes(const float* codebooks, std::uint32_t m, std::uint32_t codewords,
                  std::uint32_t sub_dim, const std::uint8_t* codes, float* out) {
  for (std::uint32_t s = 0; s < m; ++s) {
    const std::size_t word = std::size_t{s} * codewords + codes[s];
    std::copy_n(codebooks + word * sub_dim, sub_dim, out + std::size_t{s} * sub_dim);
  }
}

std::vector<std::uint8_t> assign(const TrainingTask& task, const SampleView& sample,
                                 const Codebooks& codebooks) {
  std::vector<std::uint8_t> codes(sample.rows * codebooks.m);
  compute::PqAssignWork work;
  work.rows = sample.data;
  work.count = sample.rows;
  work.dim = sample.dim;
  work.m = codebooks.m;
  work.codewords = codebooks.codewords;
  work.codebooks = codebooks.values.data();
  work.out = codes.data();
  work.cancellation = task.cancellation();
  task.device().pq_assign(work).raise();
  return codes;
}

Codebooks begin_codebooks(const SampleView& sample, std::uint32_t m, std::uint32_t codewords) {
  Codebooks codebooks{sample.dim, m, codewords, {}};
  codebooks.values.resize(std::size_t{sample.dim} * codewords);
  for (std::uint32_t s = 0; s < m; ++s) begin_space(sample, s, &codebooks);
  return codebooks;
}

void improve(const TrainingTask& task, const SampleView& sample, double reach,
             Codebooks* codebooks) {
  const std::vector<std::uint8_t> codes = assign(task, sample, *codebooks);
  compute::in_parallel(codebooks->m, 1, codebooks->m, [&](std::size_t first, std::size_t last) {
    for (std::size_t s = first; s < last; ++s) {
      task.poll()();
      move_space(sample, codes.data(), static_cast<std::uint32_t>(s), reach, codebooks);
    }
  });
}

Codebooks train_codebooks(const TrainingTask& task, const SampleView& sample, std::uint32_t m,
                          std::uint32_t codewords) {
  Codebooks codebooks = begin_codebooks(sample, m, codewords);
  std::size_t done = 0;
  for (const Stage& stage : kStages) {
    for (std::size_t i = 0; i < stage.iterations; ++i) {
      task.report("codebooks", done++, kIterations);
      improve(task, sample.first(stage.rows), stage.reach, &codebooks);
    }
  }
  return codebooks;
}

}  // namespace warplite::index

#include "index/quantization/opq.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "compute/host/rotation.h"
#include "index/clustering/matrix.h"
#include "index/quantization/pq.h"

namespace warplite::index {
namespace {

constexpr std::size_t kTurns = 12;
constexpr double kWorthMixing = 0.95;  // part of the loss; less is chance
constexpr std::size_t kStepsPerTurn = 2;
// Weight of the rotation before against what the sample says: it keeps directions in which the
// sample does not extend.
constexpr double kInertia = 1e-3;
constexpr std::size_t kMostSteps = 60;
// Most stretch of a step of nearest_orthogonal(), squared. Beyond it, a singular value of 1 would
// nearly vanish, and its direction with it.
constexpr double kMostStretch = 2.7;

std::vector<float> identity(std::uint32_t dim) {
  std::vector<float> matrix(std::size_t{dim} * dim);
  for (std::uint32_t i = 0; i < dim; ++i) matrix[std::size_t{i} * dim + i] = 1;
  return matrix;
}

double frobenius(const std::vector<float>& matrix) {
  double square = 0;
  for (const float x : matrix) square += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(square);
}

// Codebooks of the rotated sample, and the rotation, by turns.
class Turns {
 public:
  Turns(const TrainingTask& task, const SampleView& sample, std::vector<float> rotation,
        std::uint32_t m, std::uint32_t codewords)
      : task_(task),
        sample_(sample),
        rotation_(std::move(rotation)),
        rotated_(sample.rows * sample.dim),
        decoded_(sample.rows * sample.dim) {
    rotate();
    codebooks_ = begin_codebooks(rotated(), m, codewords);
    learn_codebooks();
  }

  void next() {
    const std::uint32_t dim = sample_.dim;
    if (turned_) learn_codebooks();
    turned_ = true;
    const std::vector<float> transposed = transpose(sample_.data, sample_.rows, dim);
    std::vector<float> cross(std::size_t{dim} * dim);
    multiply(transposed.data(), dim, sample_.rows, decoded_.data(), dim, cross.data(), poll());
    rotation_ = nearest_orthogonal(task_, std::move(cross), rotation_, dim);
    rotate();
  }

  // What codes lose of the sample: the sum of squared differences.
  double loss() const {
    double sum = 0;
    for (std::size_t i = 0; i < decoded_.size(); ++i) {
      const double off = static_cast<double>(rotated_[i]) - static_cast<double>(decoded_[i]);
      sum += off * off;
    }
    return sum;
  }
  std::vector<float> take() { return std::move(rotation_); }

 private:
  SampleView rotated() const { return {rotated_.data(), sample_.rows, sample_.dim}; }
  std::function<void()> poll() const {
    return [this] { task_.poll()(); };
  }

  void rotate() {
    multiply(sample_.data, sample_.rows, sample_.dim, rotation_.data(), sample_.dim,
             rotated_.data(), poll());
  }
  void learn_codebooks() {
    for (std::size_t i = 0; i < kStepsPerTurn; ++i) improve(task_, rotated(), 1, &codebooks_);
    const std::vector<std::uint8_t> codes = assign(task_, rotated(), codebooks_);
    const std::uint32_t m = codebooks_.m, dim = sample_.dim;
    for (std::size_t i = 0; i < sample_.rows; ++i) {
      decode_codes(codebooks_.values.data(), m, codebooks_.codewords, dim / m,
                   codes.data() + i * m, decoded_.data() + i * dim);
    }
  }

  const TrainingTask& task_;
  const SampleView sample_;
  std::vector<float> rotation_, rotated_, decoded_;
  Codebooks codebooks_;
  bool turned_ = false;  // since codebooks were learnt
};

}  // namespace

// Newton–Schulz, X ← X (3 − s² XᵀX) s / 2, which brings singular values σ in (0, 1] to 1: with s = 1
// by half of what they are, as long as they are small. Larger s take values that are all at least
// `least` there in half as many steps; s² = 3 / (1 + least + least²) makes `least` and 1 equal.
std::vector<float> nearest_orthogonal(const TrainingTask& task, std::vector<float> matrix,
                                      const std::vector<float>& fallback, std::uint32_t dim) {
  const std::size_t elements = matrix.size();
  const double weight = kInertia * std::max(frobenius(matrix) / std::sqrt(dim), 1e-30);
  for (std::size_t i = 0; i < elements; ++i) {
    matrix[i] += static_cast<float>(weight) * fallback[i];
  }
  const auto scale = static_cast<float>(1 / frobenius(matrix));
  for (float& x : matrix) x *= scale;
  const std::function<void()> poll = [&] { task.poll()(); };
  std::vector<float> gram(elements), next(elements);
  // About what the fallback alone leaves in a direction. Lesser values take a few steps more.
  double least = kInertia / std::sqrt(dim);
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const std::vector<float> transposed = transpose(matrix.data(), dim, dim);
    multiply(transposed.data(), dim, dim, matrix.data(), dim, gram.data(), poll);
    const double stretch = std::min(3 / (1 + least + least * least), kMostStretch);
    const double factor = std::sqrt(stretch) / 2;
    const auto constant = static_cast<float>(3 * factor);
    const auto slope = static_cast<float>(stretch * factor);
    double off = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      const float unit = i % (dim + std::size_t{1}) == 0 ? 1.0f : 0.0f;
      off = std::max(off, std::fabs(static_cast<double>(gram[i] - unit)));
      gram[i] = constant * unit - slope * gram[i];
    }
    if (off < 1e-5) break;
    multiply(matrix.data(), dim, dim, gram.data(), dim, next.data(), poll);
    matrix.swap(next);
    least = std::min(1.0, least * (3 - stretch * least * least) * factor);
  }
  return matrix;
}

std::vector<float> train_rotation(const TrainingTask& task, const SampleView& sample,
                                  std::uint32_t m, std::uint32_t codewords) {
  const std::uint32_t dim = sample.dim;
  std::vector<float> none = identity(dim), random = none;
  for (std::size_t i = 0; i < dim; ++i) compute::rotate_at_random(dim, &random[i * dim]);
  Turns as_it_is(task, sample, std::move(none), m, codewords);
  Turns mixed(task, sample, std::move(random), m, codewords);
  Turns& better = mixed.loss() < kWorthMixing * as_it_is.loss() ? mixed : as_it_is;
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    task.report("rotation", turn, kTurns);
    better.next();
  }
  return better.take();
}

}  // namespace warplite::index

#include "index/ivf/opq.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "index/ivf/matrix.h"
#include "index/ivf/pq.h"

namespace warplite::index {
namespace {

constexpr std::size_t kTurns = 12;
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
  const std::function<void()> poll = [&] { task.poll()(); };
  const std::vector<float> transposed = transpose(sample.data, sample.rows, dim);
  std::vector<float> rotation = identity(dim);
  std::vector<float> rotated(sample.data, sample.data + sample.rows * dim);
  std::vector<float> decoded(sample.rows * dim), cross(std::size_t{dim} * dim);
  const SampleView view{rotated.data(), sample.rows, dim};
  Codebooks codebooks = begin_codebooks(view, m, codewords);
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    task.report("rotation", turn, kTurns);
    for (std::size_t i = 0; i < kStepsPerTurn; ++i) improve(task, view, &codebooks);
    const std::vector<std::uint8_t> codes = assign(task, view, codebooks);
    for (std::size_t i = 0; i < sample.rows; ++i) {
      decode_codes(codebooks.values.data(), m, codewords, dim / m, codes.data() + i * m,
                   decoded.data() + i * dim);
    }
    multiply(transposed.data(), dim, sample.rows, decoded.data(), dim, cross.data(), poll);
    rotation = nearest_orthogonal(task, cross, rotation, dim);
    multiply(sample.data, sample.rows, dim, rotation.data(), dim, rotated.data(), poll);
  }
  return rotation;
}

}  // namespace warplite::index

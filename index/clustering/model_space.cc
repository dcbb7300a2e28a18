#include "index/clustering/model_space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "compute/host/parallel.h"
#include "compute/host/rotation.h"
#include "core/elements.h"
#include "index/clustering/matrix.h"

namespace warplite::index {
namespace {

constexpr std::size_t kGrainElements = std::size_t{1} << 15;

void convert(ElementType type, const std::byte* from, std::size_t n, float* to) {
  with_numbers(type, [&]<ElementType kType>() {
    for (std::size_t i = 0; i < n; ++i) to[i] = read_element<kType>(from, i);
  });
}

// Divides by the norm; zeros stay so.
void normalise(float* row, std::uint32_t dim) {
  double square = 0;
  for (std::uint32_t i = 0; i < dim; ++i) square += static_cast<double>(row[i]) * row[i];
  if (square == 0) return;
  const double norm = std::sqrt(square);
  for (std::uint32_t i = 0; i < dim; ++i) row[i] = static_cast<float>(row[i] / norm);
}

// The factor that brings a unit vector's largest element to the end of INT8's range.
float scale_for(const float* row, std::uint32_t dim, ElementType type, Distance distance) {
  if (is_real(type) || !info(distance).norms) return 1;
  float largest = 0;
  for (std::uint32_t i = 0; i < dim; ++i) largest = std::max(largest, std::fabs(row[i]));
  return largest > 0 ? 127 / largest : 1;
}

void store(const float* row, std::uint32_t dim, ElementType type, float scale, std::byte* to) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  with_numbers(type, [&]<ElementType kType>() {
    constexpr float kLargestElement = Element<kType>::kLargest;
    for (std::uint32_t i = 0; i < dim; ++i) {
      // Turning back may add the largest numbers, and then there is none.
      const float scaled = row[i] * scale;
      const float value = std::isnan(scaled) ? 0 : std::clamp(scaled, -kLargest, kLargest);
      write_element<kType>(std::clamp(value, -kLargestElement, kLargestElement), to, i);
    }
  });
}

// A sum of the largest numbers may be infinite, or none, and no list is near to it.
void clamp(float* values, std::size_t count) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::isnan(values[i]) ? 0 : std::clamp(values[i], -kLargest, kLargest);
  }
}

}  // namespace

void to_model_space(const MatrixView& vectors, Distance distance, const Rotation& rotation,
                    float* out) {
  const std::uint32_t dim = vectors.dim;
  std::vector<float> straight(rotation.matrix != nullptr ? vectors.rows * dim : 0);
  float* converted = rotation.matrix != nullptr ? straight.data() : out;
  const std::size_t grain = std::max<std::size_t>(1, kGrainElements / dim);
  compute::in_parallel(vectors.rows, grain, vectors.rows / grain,
                       [&](std::size_t first, std::size_t last) {
    convert(vectors.type, vectors.row(first), (last - first) * dim, converted + first * dim);
    for (std::size_t i = first; i < last; ++i) {
      if (info(distance).norms) normalise(converted + i * dim, dim);
      if (rotation.random) compute::rotate_at_random(dim, converted + i * dim);
    }
    if (rotation.random) clamp(converted + first * dim, (last - first) * dim);
  });
  if (rotation.matrix == nullptr) return;
  multiply(converted, vectors.rows, dim, rotation.matrix, dim, out);
  clamp(out, vectors.rows * dim);
}

void from_model_space(const float* rows, std::size_t count, std::uint32_t dim, ElementType type,
                      Distance distance, const Rotation& rotation, std::byte* out) {
  std::vector<float> straight;
  if (rotation.matrix != nullptr) {
    straight.resize(count * dim);
    const std::vector<float> back = transpose(rotation.matrix, dim, dim);
    multiply(rows, count, dim, back.data(), dim, straight.data());
    rows = straight.data();
  } else if (rotation.random) {
    straight.assign(rows, rows + count * dim);
    for (std::size_t i = 0; i < count; ++i) compute::rotate_back(dim, straight.data() + i * dim);
    rows = straight.data();
  }
  const std::size_t stride = bytes_per_vector(type, dim);
  const std::size_t grain = std::max<std::size_t>(1, kGrainElements / dim);
  compute::in_parallel(count, grain, count / grain, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const float* row = rows + i * dim;
      store(row, dim, type, scale_for(row, dim, type, distance), out + i * stride);
    }
  });
}

}  // namespace warplite::index

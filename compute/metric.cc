#include "compute/metric.h"

#include <limits>

#include "compute/device.h"
#include "compute/edit_distance.h"
#include "core/elements.h"

namespace warplite::compute {
namespace {

// Returns the largest element whose differences, squared and added, stay within float32.
float largest_element(std::uint32_t dim) {
  return static_cast<float>(0x1p61 / std::sqrt(std::max<double>(dim, 1)));
}

double element(MatrixView vectors, std::size_t row, std::size_t i) {
  return element_at(vectors.type, vectors.row(row), i);
}

double squares(MatrixView vectors, std::size_t row) {
  double sum = 0;
  for (std::size_t i = 0; i < vectors.dim; ++i) {
    const double x = element(vectors, row, i);
    sum += x * x;
  }
  return sum;
}

}  // namespace

double metric_radius(MetricSpace space, std::uint32_t dim, double radius) {
  if (!(radius < std::numeric_limits<double>::infinity())) {
    return std::numeric_limits<double>::infinity();
  }
  if (radius < 0) return -1;
  const double rounding = (dim + 16.0) * 0x1p-52;  // of a canonical distance
  if (space != MetricSpace::kAngle) return radius * (1 + rounding);
  // cosine distance = 1 − cos(angle) = chord² / 2
  const double chord = std::sqrt(2 * (radius + rounding));
  return chord < 2 ? chord : std::numeric_limits<double>::infinity();
}

bool metric_bounded(MetricSpace space, MatrixView vectors, std::size_t row) {
  if (space == MetricSpace::kAngle) {
    const double sum = squares(vectors, row);
    return sum > 0 && sum < std::numeric_limits<double>::infinity();
  }
  const double largest = largest_element(vectors.dim);
  for (std::size_t i = 0; i < vectors.dim; ++i) {
    if (!(std::abs(element(vectors, row, i)) <= largest)) return false;
  }
  return true;
}

void metric_coordinates(MetricSpace space, MatrixView vectors, std::size_t row, float* out) {
  const double norm = space == MetricSpace::kAngle ? std::sqrt(squares(vectors, row)) : 1;
  for (std::size_t i = 0; i < vectors.dim; ++i) {
    out[i] = static_cast<float>(element(vectors, row, i) / norm);
  }
}

void Device::metric_distances(MetricSpace space, const float* point, const MetricVectors& rows,
                              std::uint32_t groups, float* out) {
  for (std::size_t i = 0; i < groups; ++i, out += kMetricGroup) {
    const float* at = rows.group(i);
    for (std::size_t r = 0; r < kMetricGroup; ++r) out[r] = 0;
    for (std::size_t d = 0; d < rows.dim; ++d, at += kMetricGroup) {
      for (std::size_t r = 0; r < kMetricGroup; ++r) {
        const float t = point[d] - at[r];
        out[r] += space == MetricSpace::kL1 ? std::abs(t) : t * t;
      }
    }
    if (space == MetricSpace::kL1) continue;
    for (std::size_t r = 0; r < kMetricGroup; ++r) out[r] = std::sqrt(out[r]);
  }
}

namespace {

std::uint32_t symbol_at(const std::byte* symbols, std::uint32_t width, std::size_t i) {
  switch (width) {
    case 1: return reinterpret_cast<const std::uint8_t*>(symbols)[i];
    case 2: return reinterpret_cast<const std::uint16_t*>(symbols)[i];
    default: return reinterpret_cast<const std::uint32_t*>(symbols)[i];
  }
}

}  // namespace

void Device::text_distances(std::span<const std::uint32_t> text, const MetricTexts& texts,
                            std::uint32_t width, std::uint16_t* out) {
  const EditPattern pattern(text);
  std::vector<std::uint32_t> other;
  for (std::size_t place = 0; place < std::size_t{texts.groups} * kEditGroup; ++place) {
    if (texts.lengths[place] == MetricTexts::kNoText) continue;
    const std::byte* const group = texts.group(place / kEditGroup, width);
    other.clear();
    for (std::size_t i = 0; i < texts.lengths[place]; ++i) {
      other.push_back(symbol_at(group, width, i * kEditGroup + place % kEditGroup));
    }
    out[place] = static_cast<std::uint16_t>(pattern.distance(other, nullptr));
  }
}

}  // namespace warplite::compute

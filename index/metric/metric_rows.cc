#include "index/metric/metric_rows.h"

#include <cstring>
#include <string>

namespace warplite::index {

using compute::kMetricGroup;
using compute::MetricSpace;
using compute::MetricVectors;

MetricSpace metric_space(const std::string& kind, const ColumnShape& shape) {
  if (const auto space = info(shape.distance).space) return *space;
  const std::string known =
      distances_listed([](const DistanceInfo& row) { return row.space.has_value(); });
  throw Error(ErrorKind::kInvalid, "index=" + kind + " needs distance=" + known +
                                       ", but the column has distance=" +
                                       std::string(info(shape.distance).name));
}

void check_interrupt(compute::Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

std::uint32_t metric_groups(std::size_t rows) {
  return static_cast<std::uint32_t>((rows + kMetricGroup - 1) / kMetricGroup);
}

MetricRows::MetricRows(MetricSpace space, MatrixView rows, std::vector<std::uint32_t>& outliers,
                       compute::Cancellation* cancellation)
    : points_(metric_groups(rows.rows), rows.dim) {
  constexpr std::uint32_t kRowsBetweenPolls = 1024;
  if (points_.bytes.size() != 0) std::memset(points_.bytes.data(), 0, points_.bytes.size());
  std::vector<float> point(rows.dim);
  for (std::uint32_t row = 0; row < rows.rows; ++row) {
    if (row % kRowsBetweenPolls == 0) check_interrupt(cancellation);
    if (!compute::metric_bounded(space, rows, row)) {
      outliers.push_back(row);
      continue;
    }
    compute::metric_coordinates(space, rows, row, point.data());
    const std::uint32_t at = size();
    float* const to = points_.group(at / kMetricGroup) + at % kMetricGroup;
    for (std::size_t d = 0; d < rows.dim; ++d) to[d * kMetricGroup] = point[d];
    rows_.push_back(row);
  }
}

void MetricRows::distances(compute::Device& host, MetricSpace space, const float* point,
                           float* out) const {
  host.metric_distances(space, point, points_, metric_groups(rows_.size()), out);
}

void MetricRows::copy_point(std::uint32_t i, float* out) const {
  const float* const from = points_.group(i / kMetricGroup) + i % kMetricGroup;
  for (std::size_t d = 0; d < points_.dim; ++d) out[d] = from[d * kMetricGroup];
}

void MetricRows::copy_to(std::uint32_t i, MetricVectors& to, std::uint32_t at) const {
  const float* const from = points_.group(i / kMetricGroup) + i % kMetricGroup;
  float* const place = to.group(at / kMetricGroup) + at % kMetricGroup;
  for (std::size_t d = 0; d < points_.dim; ++d) place[d * kMetricGroup] = from[d * kMetricGroup];
}

void MetricRows::remove(std::uint32_t i) {
  const std::uint32_t last = size() - 1;
  if (i != last) copy_to(last, points_, i);
  rows_[i] = rows_[last];
  rows_.pop_back();
}

}  // namespace warplite::index

// Rows of a block as points of a metric space, for the builders of metric indexes of vectors.
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/device.h"
#include "compute/metric.h"
#include "core/distance.h"
#include "index/index.h"

namespace warplite::index {

// Throws Error{kInvalid} that names `kind` unless the column's distance is that of a metric space.
compute::MetricSpace metric_space(const std::string& kind, const ColumnShape& shape);

// Throws Error{kInterrupted} once `cancellation` (may be null) asks for it.
void check_interrupt(compute::Cancellation* cancellation);

// The points that no cluster has taken yet, by groups of 16, and each one's row.
class MetricRows {
 public:
  // Rows without bounded distances go to `outliers`.
  MetricRows(compute::MetricSpace space, MatrixView rows, std::vector<std::uint32_t>& outliers,
             compute::Cancellation* cancellation);

  std::uint32_t size() const { return static_cast<std::uint32_t>(rows_.size()); }
  std::uint32_t row(std::uint32_t i) const { return rows_[i]; }
  const compute::MetricVectors& points() const { return points_; }
  // Distances of a point, [dim], to all of them: out[size(), up to whole groups].
  void distances(compute::Device& host, compute::MetricSpace space, const float* point,
                 float* out) const;
  void copy_point(std::uint32_t i, float* out) const;
  // The i-th becomes place `at` of `to`.
  void copy_to(std::uint32_t i, compute::MetricVectors& to, std::uint32_t at) const;
  // The last takes the place of the i-th.
  void remove(std::uint32_t i);

 private:
  compute::MetricVectors points_;
  std::vector<std::uint32_t> rows_;
};

std::uint32_t metric_groups(std::size_t rows);

}  // namespace warplite::index

#include "index/metric/sss.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "index/metric/metric_index.h"
#include "index/metric/metric_rows.h"
#include "index/metric/on_host.h"

namespace warplite::index {
namespace {

using compute::kMetricGroup;
using compute::MetricSpace;
using compute::VectorPivots;

// With this alpha the fewest distances are evaluated (metric-range §IV-C).
constexpr double kDefaultAlpha = 0.4;
// More tests of a row cost more than they save.
constexpr std::uint32_t kMostPivots = 64;

class Selection {
 public:
  Selection(compute::Device& host, MetricSpace space, double alpha, const MetricRows& rows)
      : host_(host), space_(space), alpha_(alpha), rows_(rows), point_(rows.points().dim) {}

  VectorPivots run(compute::Cancellation* cancellation) {
    std::vector<std::uint32_t> pivots{0};
    distances_.push_back(distances_of(0));
    const double apart = alpha_ * diameter();
    std::vector<float> nearest = distances_[0];  // distance to the nearest pivot
    while (apart > 0 && pivots.size() < kMostPivots) {
      check_interrupt(cancellation);
      std::uint32_t next = pivots.back() + 1;
      while (next < rows_.size() && length(nearest[next]) < apart) ++next;
      if (next == rows_.size()) break;
      pivots.push_back(next);
      distances_.push_back(distances_of(next));
      for (std::uint32_t i = 0; i < rows_.size(); ++i) {
        nearest[i] = std::min(nearest[i], distances_.back()[i]);
      }
    }
    return lay_out(pivots);
  }

 private:
  double length(float distance) const {
    if (space_ != MetricSpace::kAngle) return double{distance};
    return 2 * std::asin(std::min(1.0, double{distance} / 2));
  }

  std::vector<float> distances_of(std::uint32_t i) {
    std::vector<float> out(std::size_t{metric_groups(rows_.size())} * kMetricGroup);
    rows_.copy_point(i, point_.data());
    rows_.distances(host_, space_, point_.data(), out.data());
    out.resize(rows_.size());
    return out;
  }

  // The largest distance of two rows, about: from the first row to the farthest, from there to the
  // farthest again. The largest of all pairs would take all of them.
  double diameter() {
    constexpr int kSteps = 3;
    double most = 0;
    std::vector<float> distances = distances_[0];
    for (int step = 0; step < kSteps; ++step) {
      const auto farthest = std::max_element(distances.begin(), distances.end());
      most = std::max(most, length(*farthest));
      distances = distances_of(static_cast<std::uint32_t>(farthest - distances.begin()));
    }
    return std::max(most, length(*std::max_element(distances.begin(), distances.end())));
  }

  VectorPivots lay_out(const std::vector<std::uint32_t>& pivots) const {
    VectorPivots out;
    out.count = static_cast<std::uint32_t>(pivots.size());
    out.pivots = compute::MetricVectors(metric_groups(out.count), rows_.points().dim);
    std::fill_n(out.pivots.group(0), out.pivots.bytes.size() / sizeof(float), 0.0f);
    for (std::uint32_t i = 0; i < out.count; ++i) rows_.copy_to(pivots[i], out.pivots, i);
    std::vector<std::uint32_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return distances_[0][a] < distances_[0][b];
    });
    out.places = metric_groups(rows_.size()) * kMetricGroup;
    out.rows.resize(out.places, compute::kNoRow);
    out.table.resize(std::size_t{out.count} * out.places, std::numeric_limits<float>::infinity());
    for (std::uint32_t at = 0; at < order.size(); ++at) out.rows[at] = rows_.row(order[at]);
    for (std::uint32_t i = 0; i < out.count; ++i) {
      float* const to = out.table.data() + std::size_t{i} * out.places;
      for (std::uint32_t at = 0; at < order.size(); ++at) to[at] = distances_[i][order[at]];
    }
    return out;
  }

  compute::Device& host_;
  const MetricSpace space_;
  const double alpha_;
  const MetricRows& rows_;
  std::vector<float> point_;
  std::vector<std::vector<float>> distances_;  // of each pivot to all rows
};

class PivotBuilder : public compute::VectorMetricBuilder {
 public:
  PivotBuilder(MetricSpace space, double alpha) : space_(space), alpha_(alpha) {}

  MetricSpace space() const override { return space_; }
  double cost(std::size_t rows) const override { return static_cast<double>(rows) * kMostPivots; }
  std::shared_ptr<const compute::VectorMetric> build(
      compute::Device& host, MatrixView rows,
      compute::Cancellation* cancellation) const override {
    auto out = std::make_shared<compute::VectorMetric>();
    out->space = space_;
    const MetricRows points(space_, rows, out->outliers, cancellation);
    out->pivots = std::make_unique<VectorPivots>();
    if (points.size() != 0) *out->pivots = Selection(host, space_, alpha_, points).run(cancellation);
    return out;
  }

 private:
  const MetricSpace space_;
  const double alpha_;
};

std::unique_ptr<Index> make(const Spec& spec, const ColumnShape& shape) {
  const MetricSpace space = metric_space(spec.kind, shape);
  return std::make_unique<MetricIndex>(std::make_unique<VectorsOnHost>(
      std::make_unique<PivotBuilder>(space, pivot_alpha(spec, kDefaultAlpha))));
}

}  // namespace

double pivot_alpha(const Spec& spec, double otherwise) {
  double alpha = otherwise;
  for (const auto& [name, text] : spec.parameters) {
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, alpha);
    if (name != "alpha" || result.ec != std::errc() || result.ptr != end ||
        !(alpha > 0 && alpha <= 1)) {
      throw Error(ErrorKind::kInvalid,
                  "index=sss takes the parameter alpha, above 0 to 1: the share of the largest "
                  "distance by which pivots are apart, but \"" +
                      name + "=" + text + "\" was given");
    }
  }
  return alpha;
}

Kind sss_kind() { return {"sss", make}; }

}  // namespace warplite::index

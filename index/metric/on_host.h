// Builders of metric indexes that have the host's device compute distances, whichever device asks:
// it has the faster loops for it.
// Threads: as the builder.
#pragma once

#include <memory>
#include <utility>

#include "compute/device.h"

namespace warplite::index {

class VectorsOnHost final : public compute::VectorMetricBuilder {
 public:
  explicit VectorsOnHost(std::unique_ptr<const compute::VectorMetricBuilder> builder)
      : builder_(std::move(builder)) {}

  compute::MetricSpace space() const override { return builder_->space(); }
  double cost(std::size_t rows) const override { return builder_->cost(rows); }
  std::shared_ptr<const compute::VectorMetric> build(
      compute::Device&, MatrixView rows, compute::Cancellation* cancellation) const override {
    return builder_->build(compute::Registry::instance().host(), rows, cancellation);
  }

 private:
  const std::unique_ptr<const compute::VectorMetricBuilder> builder_;
};

class TextsOnHost final : public compute::TextMetricBuilder {
 public:
  explicit TextsOnHost(std::unique_ptr<const compute::TextMetricBuilder> builder)
      : builder_(std::move(builder)) {}

  double cost(std::size_t texts) const override { return builder_->cost(texts); }
  std::shared_ptr<const compute::TextMetric> build(
      compute::Device&, const compute::EditTile& tile, const std::byte* bytes,
      compute::Cancellation* cancellation) const override {
    return builder_->build(compute::Registry::instance().host(), tile, bytes, cancellation);
  }

 private:
  const std::unique_ptr<const compute::TextMetricBuilder> builder_;
};

}  // namespace warplite::index

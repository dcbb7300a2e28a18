// An index that lets devices pass over rows by the triangle inequality (compute/metric.h): every
// search is exact, with the rows and the distances of index=flat.
#pragma once

#include <memory>
#include <utility>

#include "compute/metric.h"
#include "index/index.h"

namespace warplite::index {

class MetricIndex : public Index {
 public:
  explicit MetricIndex(std::unique_ptr<const compute::VectorMetricBuilder> builder)
      : builder_(std::move(builder)) {}

  const compute::VectorMetricBuilder& builder() const { return *builder_; }

  Status nearest(compute::Device& device, const compute::Workload& work,
                 compute::HitTable& best) const override {
    return device.nearest(with_builder(work), best);
  }
  Status within(compute::Device& device, const compute::Workload& work,
                compute::HitLists& out) const override {
    return device.within(with_builder(work), out);
  }

 private:
  compute::Workload with_builder(compute::Workload work) const {
    work.metric = builder_.get();
    return work;
  }

  const std::unique_ptr<const compute::VectorMetricBuilder> builder_;
};

}  // namespace warplite::index

// The metric index of a block or tile, with its buffer (CpuBuffer::derived): made when searches have
// become worth it (compute::MetricLedger), by one of the threads that search at the time, while
// others do without.
// Threads: any.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "compute/metric.h"
#include "cpu/ivf_parallel.h"
#include "cpu/worker.h"

namespace warplite::cpu {

template <class Metric>
class MetricState {
 public:
  // Of a buffer, which outlives the search.
  static MetricState& of(const compute::Buffer& buffer) {
    const auto make = [] { return std::make_shared<MetricState>(); };
    return const_cast<MetricState&>(
        *static_cast<const CpuBuffer&>(buffer).derived<MetricState>(make));
  }

  std::shared_ptr<const Metric> find() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return metric_;
  }
  // Whether the caller is to make it; see MetricLedger. It calls finish() then.
  bool claim(double cost, double comparisons, bool lasting = true) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (making_ || metric_ != nullptr) return false;
    if (!ledger_.worth_building(cost, comparisons, lasting)) return false;
    return making_ = true;
  }
  void finish(std::shared_ptr<const Metric> metric) {
    const std::lock_guard<std::mutex> lock(mutex_);
    metric_ = std::move(metric);
    making_ = false;
  }

 private:
  std::mutex mutex_;
  compute::MetricLedger ledger_;
  bool making_ = false;
  std::shared_ptr<const Metric> metric_;
};

// What was claimed and did not come about is free again.
template <class Metric>
class MetricClaim {
 public:
  explicit MetricClaim(MetricState<Metric>& state) : state_(state) {}
  ~MetricClaim() { state_.finish(std::move(metric_)); }
  MetricClaim(const MetricClaim&) = delete;
  MetricClaim& operator=(const MetricClaim&) = delete;
  void set(std::shared_ptr<const Metric> metric) { metric_ = std::move(metric); }

 private:
  MetricState<Metric>& state_;
  std::shared_ptr<const Metric> metric_;
};

// Asked by builders on the threads of a loop.
class LoopCancellation : public compute::Cancellation {
 public:
  LoopCancellation(ItemLoop& loop, unsigned thread) : loop_(loop), thread_(thread) {}
  bool requested() override {
    loop_.check(thread_);  // throws
    return false;
  }

 private:
  ItemLoop& loop_;
  const unsigned thread_;
};

}  // namespace warplite::cpu

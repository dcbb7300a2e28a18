// The metric index of a block or tile, with its buffer (CpuBuffer::derived): made when searches have
// become worth it (compute/policy/metric_ledger.h), by one of the threads that search at the time, while
// others do without.
// Threads: any.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "compute/policy/metric_ledger.h"
#include "cpu/runtime/cpu_buffer.h"
#include "cpu/runtime/item_loop.h"

namespace warplite::cpu {

template <class Metric>
class MetricState {
 public:
  // Returns the state kept with a buffer, which outlives the search.
  static MetricState& of(const compute::Buffer& buffer) {
    return CpuBuffer::of(&buffer).derived().of<MetricState>();
  }

  std::shared_ptr<const Metric> find() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return metric_;
  }
  // Says whether the caller is to make it; see MetricLedger. It calls finish() then, with null
  // where it did not come about.
  bool claim(const compute::MissingMetric& missing, bool at_once) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (making_ || metric_ != nullptr || !ledger_.worth_making(missing, at_once)) return false;
    return making_ = true;
  }
  void finish(std::shared_ptr<const Metric> metric) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (metric == nullptr) ledger_.given_up();
    metric_ = std::move(metric);
    making_ = false;
  }

 private:
  std::mutex mutex_;
  compute::MetricLedger ledger_;
  bool making_ = false;
  std::shared_ptr<const Metric> metric_;
};

// A MetricClaim makes what was claimed and did not come about free again.
template <class Metric>
class MetricClaim {
 public:
  // Null: the caller is not to make it.
  static std::optional<MetricClaim> ask(MetricState<Metric>& state,
                                        const compute::MissingMetric& missing, bool at_once) {
    if (!state.claim(missing, at_once)) return std::nullopt;
    return MetricClaim(state);
  }
  MetricClaim(MetricClaim&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)), metric_(std::move(other.metric_)) {}
  MetricClaim& operator=(MetricClaim&&) = delete;
  ~MetricClaim() {
    if (state_ != nullptr) state_->finish(std::move(metric_));
  }
  void set(std::shared_ptr<const Metric> metric) { metric_ = std::move(metric); }

 private:
  explicit MetricClaim(MetricState<Metric>& state) noexcept : state_(&state) {}

  MetricState<Metric>* state_;
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

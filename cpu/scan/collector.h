// Hits go here while threads search: every thread collects for itself, and the threads share one
// falling threshold per query, so that what one has found spares the others.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/topk.h"
#include "core/types.h"

namespace warplite::cpu {

// One query's hits in one thread: the k nearest, or all. Not thread-safe.
class Collector {
 public:
  // The k nearest of those no farther than `bound`.
  static Collector nearest(std::size_t k, double bound) {
    Collector collector(bound);
    collector.best_.emplace(k);
    collector.best_->tighten(bound);
    return collector;
  }
  // All of them; about `expected` are to come.
  static Collector within(double bound, std::size_t expected) {
    Collector collector(bound);
    collector.hits_.reserve(expected);
    return collector;
  }

  // Hits farther than this are of no use; at this distance they may be.
  double threshold() const { return best_ ? best_->threshold() : bound_; }
  void tighten(double bound) {
    if (best_) best_->tighten(bound);
  }
  void add(const Hit& hit) {
    if (best_) {
      best_->push(hit);
    } else {
      hits_.push_back(hit);
    }
  }

  const TopK& best() const { return *best_; }
  TopK& best() { return *best_; }
  std::vector<Hit>& hits() { return hits_; }

 private:
  explicit Collector(double bound) : bound_(bound) {}

  double bound_;
  std::optional<TopK> best_;
  std::vector<Hit> hits_;
};

class SharedThresholds {
 public:
  explicit SharedThresholds(std::size_t queries)
      : queries_(queries), values_(new std::atomic<double>[queries]) {}

  // Call this before threads share(); `k`: the largest.
  void expect(unsigned threads, std::size_t k) {
    if (threads < 2 || k < kWorthwhile) return;
    threads_ = threads;
    parts_.reset(new std::atomic<double>[queries_ * threads]);
    for (std::size_t i = 0; i < queries_ * threads; ++i) {
      parts_[i] = std::numeric_limits<double>::infinity();
    }
  }
  // Hits of each thread that make up k together; 0: nothing is shared, which pays if k is not small.
  std::size_t part(std::size_t k) const {
    return threads_ == 0 || k < kWorthwhile ? 0 : (k + threads_ - 1) / threads_;
  }

  void set(std::size_t query, double value) { values_[query] = value; }
  double get(std::size_t query) const { return values_[query].load(std::memory_order_relaxed); }
  void lower(std::size_t query, double value) {
    double seen = get(query);
    while (value < seen && !values_[query].compare_exchange_weak(seen, value)) {
    }
  }
  // The thread has part() hits within `value`. Where every thread has, there are k of them
  // within the greatest of the values, long before one thread alone has found k as near.
  void share(std::size_t query, unsigned thread, double value) {
    std::atomic<double>* const parts = &parts_[query * threads_];
    parts[thread] = value;
    double greatest = value;
    for (unsigned t = 0; t < threads_; ++t) greatest = std::max(greatest, parts[t].load());
    lower(query, greatest);
  }

 private:
  static constexpr std::size_t kWorthwhile = 64;

  std::size_t queries_;
  unsigned threads_ = 0;
  std::unique_ptr<std::atomic<double>[]> values_;
  std::unique_ptr<std::atomic<double>[]> parts_;  // [query][thread]
};

}  // namespace warplite::cpu

// Making the metric indexes that a search has found to be worth it.
// Threads: one search.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "compute/ops.h"
#include "core/error.h"
#include "gpu/metric/index.h"
#include "gpu/runtime/threads.h"

namespace warplite::gpu {

// What the caller's Cancellation says, to all threads that build; the caller's thread asks it.
class BuildCancellation : public compute::Cancellation {
 public:
  explicit BuildCancellation(compute::Cancellation* caller)
      : caller_(caller), thread_(std::this_thread::get_id()) {}
  bool requested() override {
    if (std::this_thread::get_id() == thread_ && caller_ != nullptr && !stop_) {
      stop_ = caller_->requested();
    }
    return stop_;
  }

 private:
  compute::Cancellation* const caller_;
  const std::thread::id thread_;
  std::atomic<bool> stop_{false};
};

// MetricClaims hold the indexes that the search is to make. They are free again unless they come
// about.
class MetricClaims {
 public:
  MetricClaims() = default;
  MetricClaims(const MetricClaims&) = delete;
  MetricClaims& operator=(const MetricClaims&) = delete;
  ~MetricClaims() {
    for (std::size_t i = made_; i < indexes_.size(); ++i) indexes_[i]->give_up();
  }

  void reserve(std::size_t count) { indexes_.reserve(count); }
  void add(MetricIndexes& indexes) { indexes_.push_back(&indexes); }

  // `build(i, cancellation)` computes the i-th on the host, on any thread; it is then sent with
  // finish(indexes, built). Where there is no room for them they do not come about. Throws
  // Error{kInterrupted}.
  template <typename Build, typename Finish>
  void make(compute::Cancellation* cancellation, const Build& build, const Finish& finish) {
    try {
      while (made_ < indexes_.size()) make_some(cancellation, build, finish);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNoMemory) throw;
    }
  }

 private:
  template <typename Build, typename Finish>
  void make_some(compute::Cancellation* cancellation, const Build& build, const Finish& finish) {
    constexpr std::size_t kAtOnce = 16;  // which wait in host memory to be sent
    BuildCancellation all(cancellation);
    const std::size_t count = std::min(kAtOnce, indexes_.size() - made_);
    std::vector<decltype(build(std::size_t{0}, nullptr))> built(count);
    in_parallel(
        count, count, [&](std::size_t i) { built[i] = build(made_ + i, &all); },
        [&] { all.requested(); });
    if (all.requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
    for (const auto& one : built) {
      finish(*indexes_[made_], *one);
      ++made_;
    }
  }

  std::vector<MetricIndexes*> indexes_;
  std::size_t made_ = 0;
};

}  // namespace warplite::gpu

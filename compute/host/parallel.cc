#include "compute/host/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "compute/device.h"
#include "core/process/interruption.h"

namespace warplite::compute {
namespace {

std::atomic<RunOnWorkers> known_workers{nullptr};

using Body = std::function<void(std::size_t, std::size_t)>;

// Ranges are what threads share while they call a body.
class Ranges {
 public:
  Ranges(std::size_t n, std::size_t grain, const Body& body)
      : n_(n), grain_(grain), count_((n + grain - 1) / grain), body_(body) {}

  std::size_t count() const { return count_; }

  // Runs on the thread that waits for all ranges.
  void take_some() noexcept {
    try {
      for (std::size_t i = next_++; i < count_; i = next_++) {
        poll_interruption();
        body_(i * grain_, std::min(n_, (i + 1) * grain_));
      }
    } catch (...) {
      end(std::current_exception());
    }
  }
  // Runs on another thread, which learns from the waiting one what it is asked to do.
  void help() noexcept {
    Stopped stopped{*this};
    const Interruptible scope(&stopped);
    take_some();
  }
  void ask() noexcept {
    try {
      poll_interruption();
    } catch (...) {
      end(std::current_exception());
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Stopped {
    const Ranges& ranges;
    bool requested() const { return ranges.ended_.load(std::memory_order_relaxed); }
  };

  // The first failure counts: those that follow are of threads that were asked to end.
  void end(std::exception_ptr failure) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    ended_ = true;
    next_ = count_;
  }

  const std::size_t n_, grain_, count_;
  const Body& body_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void set_workers(RunOnWorkers run) { known_workers = run; }
RunOnWorkers workers() { return known_workers; }

void in_parallel(std::size_t n, std::size_t grain, std::size_t threads, const Body& body) {
  if (n == 0) return;
  Ranges ranges(n, grain, body);
  threads = std::min(threads, ranges.count());
  if (threads > 1) threads = std::min<std::size_t>(threads, thread_count());
  const RunOnWorkers run = workers();
  if (threads <= 1 || run == nullptr) {
    ranges.take_some();
  } else {
    run(
        static_cast<unsigned>(threads),
        [&](unsigned thread) { thread == 0 ? ranges.take_some() : ranges.help(); },
        [&] { ranges.ask(); });
  }
  ranges.rethrow();
}

}  // namespace warplite::compute

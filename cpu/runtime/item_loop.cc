#include "cpu/runtime/item_loop.h"

#include <algorithm>

#include "compute/device.h"
#include "compute/host/meanwhile.h"
#include "core/error.h"
#include "cpu/runtime/thread_pool.h"

namespace warplite::cpu {

void ItemLoop::run(unsigned threads, std::size_t items,
                   const std::function<void(unsigned, std::size_t)>& body,
                   const std::function<void(unsigned)>& end) {
  next_ = 0;
  // The others may have done everything before this thread takes an item.
  check(0);
  const auto poll = [this]() noexcept {
    try {
      stopped(0);
    } catch (...) {
      fail();
    }
  };
  run_on_pool(
      threads, [&](unsigned thread) { take_part(thread, items, body, end); }, poll);
  if (failure_) std::rethrow_exception(failure_);
  if (stop_) throw Error(ErrorKind::kInterrupted, "interrupted");
}

unsigned ItemLoop::begin_with_meanwhile(unsigned threads) {
  meanwhile_ = true;
  return compute::Meanwhile::is_pending() ? std::max(threads, std::min(2u, compute::thread_count()))
                                          : threads;
}

void ItemLoop::take_part(unsigned thread, std::size_t items,
                         const std::function<void(unsigned, std::size_t)>& body,
                         const std::function<void(unsigned)>& end) noexcept {
  try {
    if (thread == 0 && meanwhile_) compute::Meanwhile::run_pending();
    bool any = false;
    for (std::size_t i = next_++; i < items && !stopped(thread); i = next_++) {
      body(thread, i);
      any = true;
    }
    if (any && end && !stopped(thread)) end(thread);
  } catch (...) {
    fail();
  }
}

void ItemLoop::check(unsigned thread) {
  if (stopped(thread)) throw Error(ErrorKind::kInterrupted, "interrupted");
}

bool ItemLoop::stopped(unsigned thread) {
  if (thread == 0 && cancellation_ != nullptr && !stop_) {
    const Clock::time_point now = Clock::now();
    if (now - asked_ >= std::chrono::milliseconds(2)) {
      asked_ = now;
      if (cancellation_->requested()) stop_ = true;
    }
  }
  return stop_.load(std::memory_order_relaxed);
}

void ItemLoop::fail() noexcept {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  if (!failure_) failure_ = std::current_exception();
  stop_ = true;
}

}  // namespace warplite::cpu

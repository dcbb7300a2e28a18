// Items of one search that threads take one by one, until none is left or the caller's Cancellation
// ends it.
// Threads: run() by one at a time. Errors: what a body throws; Error{kInterrupted}.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>

#include "compute/ops.h"

namespace warplite::cpu {

class ItemLoop {
 public:
  explicit ItemLoop(compute::Cancellation* cancellation) : cancellation_(cancellation) {}

  // Calls body(thread, item) for every item < items, thread < threads. Thread 0 is the caller's.
  // `end`, if not empty, follows a thread's last item, unless the loop was ended early.
  void run(unsigned threads, std::size_t items,
           const std::function<void(unsigned, std::size_t)>& body,
           const std::function<void(unsigned)>& end = {});

  // From now on the caller's thread takes its first item when it has done what compute/host/meanwhile.h
  // says. Other threads do not wait for it: returns how many to run with, `threads`, or another one
  // where there is something to do and nobody else would take the items meanwhile.
  unsigned begin_with_meanwhile(unsigned threads);

  // Call this in long bodies: it throws once the search is to end early.
  void check(unsigned thread);
  bool stopped(unsigned thread);

 private:
  using Clock = std::chrono::steady_clock;

  void take_part(unsigned thread, std::size_t items,
                 const std::function<void(unsigned, std::size_t)>& body,
                 const std::function<void(unsigned)>& end) noexcept;
  void fail() noexcept;

  compute::Cancellation* cancellation_;
  Clock::time_point asked_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stop_{false};
  bool meanwhile_ = false;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace warplite::cpu

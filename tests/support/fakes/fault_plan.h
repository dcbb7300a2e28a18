// Which of the events that are counted fail. Threads: any.
#pragma once

#include <atomic>

namespace warplite::testing {

class FaultPlan {
 public:
  // Event number `nth` (from 0) fails; with `forever`, all after it too.
  void begin(long nth, bool forever) {
    forever_ = forever;
    fired_ = false;
    remaining_ = nth;
  }
  void end() {
    remaining_ = kNever;
    forever_ = false;
  }

  bool fails() {
    if (remaining_.load(std::memory_order_relaxed) == kNever) return false;
    if (remaining_.fetch_sub(1) > 0) return false;
    // The one that fails leaves 0 behind for `forever`, or turns the plan off.
    remaining_.store(forever_.load() ? 0 : kNever);
    fired_.store(true);
    return true;
  }
  bool fired() const { return fired_; }
  long remaining() const { return remaining_; }  // events until the one that fails

 private:
  static constexpr long kNever = -1;

  std::atomic<long> remaining_{kNever};
  std::atomic<bool> forever_{false};
  std::atomic<bool> fired_{false};
};

}  // namespace warplite::testing

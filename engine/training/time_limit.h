// How long an index may learn at the end of a transaction.
#pragma once

#include <chrono>
#include <cstdint>

#include "compute/device.h"

namespace warplite::engine {

// Seconds that an index may take to learn at the end of a transaction; 0: none learns there. Of the
// whole process; 30 at first. Threads: any.
void set_training_limit(std::uint32_t seconds);
std::uint32_t training_limit();

// Counts the time that this thread works. What it waits for others counts a quarter, so that a table learns on a
// machine that does other things at the same time, and does not wait without end.
// Threads: belongs to the one that made it.
class WorkingTime {
 public:
  double seconds() const;
  // Of the clock on the wall, which is no less; it takes less to ask.
  double since() const;

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point begin_ = Clock::now();
  std::chrono::nanoseconds worked_before_ = worked();

  static std::chrono::nanoseconds worked();
};

// Ends what takes longer than that, or would at the pace that it has after a quarter of it; and what `asked`,
// which may be null, says is to end.
// Threads: as `asked`.
class TimeLimit : public compute::Cancellation {
 public:
  TimeLimit(compute::Cancellation* asked, double seconds) : asked_(asked), seconds_(seconds) {}

  // So much of the work is done, 0 … 1.
  void reached(double done) { done_ = done; }

  bool requested() override {
    passed_ = passed_ || is_late();
    return passed_ || (asked_ != nullptr && asked_->requested());
  }
  // Says whether it ended something.
  bool passed() const { return passed_; }

 private:
  bool is_late() const;

  compute::Cancellation* const asked_;
  const double seconds_;
  const WorkingTime time_;
  double done_ = 0;
  bool passed_ = false;
};

}  // namespace warplite::engine

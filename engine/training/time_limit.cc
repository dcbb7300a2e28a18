#include "engine/training/time_limit.h"

#include <algorithm>
#include <atomic>

#include "core/system.h"

namespace warplite::engine {
namespace {

std::atomic<std::uint32_t> limit{30};

}  // namespace

void set_training_limit(std::uint32_t seconds) { limit = seconds; }
std::uint32_t training_limit() { return limit; }

std::chrono::nanoseconds WorkingTime::worked() { return os::thread_time(); }

double WorkingTime::since() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

double WorkingTime::seconds() const {
  constexpr double kWaiting = 0.25;
  const double work = std::chrono::duration<double>(worked() - worked_before_).count();
  return work + kWaiting * std::max(0.0, since() - work);
}

bool TimeLimit::is_late() const {
  constexpr double kPace = 0.25;  // of the time, when what is done says how long all takes
  constexpr double kHopeless = 1.25;  // times as long as there is; what is done is not known better
  if (time_.since() < kPace * seconds_) return false;
  const double seconds = time_.seconds();
  return seconds >= seconds_ ||
         (seconds >= kPace * seconds_ && seconds > kHopeless * done_ * seconds_);
}

}  // namespace warplite::engine

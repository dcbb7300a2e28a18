#include "sql/host/progress.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

namespace warplite::sql {
namespace {

std::atomic<bool> enabled{false};

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPause{1000};

// A line at once, and then when the last one is a second old.
class Reporter {
 public:
  explicit Reporter(std::string subject) : subject_(std::move(subject)) {}

  void operator()(const std::string& what, double done) {
    const Clock::time_point now = Clock::now();
    if (told_ && now - *told_ < kPause) return;
    told_ = now;
    std::fprintf(stderr, "%s: %s, %d %%\n", subject_.c_str(), what.c_str(),
                 static_cast<int>(std::lround(100 * done)));
  }

 private:
  std::string subject_;
  std::optional<Clock::time_point> told_;
};

}  // namespace

void enable_progress(bool wanted) { enabled = wanted; }
bool progress_enabled() { return enabled; }

index::Progress progress_reporter(std::string subject) {
  if (!progress_enabled()) return {};
  return Reporter(std::move(subject));
}

}  // namespace warplite::sql

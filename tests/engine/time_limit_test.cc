// How long an index may learn: what counts, and when it is told to end.
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "engine/training/time_limit.h"

namespace warplite::engine {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Works for so long on the clock.
void work(milliseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
  }
}

// Seconds of the clock until the limit ends work that is done as fast as the pace says, of all of it a second.
double ended_after(double seconds, double pace) {
  TimeLimit limit(nullptr, seconds);
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  while (!limit.requested()) limit.reached(pace * elapsed());
  CHECK(limit.passed());
  return elapsed();
}

TEST_CASE("time that a thread works counts, and a quarter of what it waits") {
  const WorkingTime waiting;
  std::this_thread::sleep_for(milliseconds(80));
  CHECK(waiting.seconds() >= 0.02);
  CHECK(waiting.seconds() < 0.75 * waiting.since());
  const WorkingTime working;
  work(milliseconds(40));
  CHECK(working.seconds() > 0.01);
  CHECK(working.seconds() <= working.since());
}

TEST_CASE("a limit ends work that takes longer, and sooner what would") {
  CHECK(ended_after(0.08, 15) >= 0.08);
  // Of which a twelfth is done when the time is over.
  const double hopeless = ended_after(0.4, 0.2);
  CHECK(hopeless >= 0.1);
  CHECK(ended_after(0.4, 100) > hopeless);
}

TEST_CASE("who asked is obeyed, which is no matter of time") {
  class Asked : public compute::Cancellation {
   public:
    bool requested() override { return true; }
  } asked;
  TimeLimit limit(&asked, 3600);
  CHECK(limit.requested());
  CHECK(!limit.passed());
}

}  // namespace
}  // namespace warplite::engine

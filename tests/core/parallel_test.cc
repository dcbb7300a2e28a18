// Work shared among threads: every part of it is done once, and what fails is told.
#include "compute/host/parallel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/process/interruption.h"
#include "gpu/runtime/threads.h"

namespace warplite::compute {
namespace {

TEST_CASE("work in parallel is done once") {
  for (std::size_t n : {0, 1, 7, 64, 1000}) {
    for (std::size_t grain : {1, 3, 64, 2000}) {
      for (std::size_t threads : {0, 1, 2, 16}) {
        std::vector<std::atomic<int>> done(n);
        in_parallel(n, grain, threads, [&](std::size_t first, std::size_t last) {
          REQUIRE(first < last);
          for (std::size_t i = first; i < last; ++i) ++done[i];
        });
        for (const std::atomic<int>& times : done) CHECK(times == 1);
      }
    }
  }
}

TEST_CASE("work in parallel that fails says so to the caller") {
  for (std::size_t threads : {1, 4}) {
    const auto run = [&] {
      in_parallel(100, 1, threads, [&](std::size_t first, std::size_t last) {
        if (first <= 50 && 50 < last) throw std::runtime_error("fifty");
      });
    };
    CHECK_THROWS_WITH_AS(run(), "fifty", std::runtime_error);
  }
}

// Whoever waits for others learns of the interruption, on whichever thread the work is.
TEST_CASE("work in parallel ends when the thread that asked for it is interrupted") {
  using Clock = std::chrono::steady_clock;
  struct Later {
    Clock::time_point at = Clock::now() + std::chrono::milliseconds(30);
    bool requested() const { return Clock::now() >= at; }
  };
  for (const bool caller_works : {true, false}) {
    for (const std::size_t threads : {1, 2, 4}) {
      if (!caller_works && threads == 1) continue;
      CAPTURE(caller_works);
      CAPTURE(threads);
      const std::thread::id caller = std::this_thread::get_id();
      std::atomic<bool> helped{false};
      const auto run = [&] {
        Later later;
        const Interruptible scope(&later);
        in_parallel(64, 1, threads, [&](std::size_t, std::size_t) {
          if (std::this_thread::get_id() != caller) {
            helped = true;
          } else if (!caller_works) {
            // Others take all the work there is, unless they are all busy elsewhere.
            while (!helped && !later.requested()) std::this_thread::yield();
            return;
          }
          for (;;) poll_interruption();
        });
      };
      try {
        run();
        FAIL_CHECK("nothing was thrown");
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::kInterrupted);
      }
    }
  }
  poll_interruption();  // outside nobody asks
}

TEST_CASE("work of a plug-in is done once, tells what fails, and asks whoever wants it to end") {
  for (const std::size_t useful : {1u, 3u, 100u}) {
    std::vector<std::atomic<int>> done(1000);
    gpu::in_parallel(done.size(), useful, [&](std::size_t i) { ++done[i]; });
    for (const std::atomic<int>& times : done) CHECK(times == 1);
    gpu::in_parallel(0, useful, [](std::size_t) { FAIL_CHECK("there is nothing to do"); });
    const auto fail = [](std::size_t i) {
      if (i == 700) throw std::runtime_error("failed");
    };
    CHECK_THROWS_AS(gpu::in_parallel(1000, useful, fail), std::runtime_error);
    std::atomic<int> asked = 0;
    const std::function<void()> poll = [&] {
      if (++asked == 2) throw Error(ErrorKind::kInterrupted, "interrupted");
    };
    const auto wait = [](std::size_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    };
    CHECK_THROWS_AS(gpu::in_parallel(1000, useful, wait, poll), Error);
  }
}

TEST_CASE("the innermost says whether to end") {
  struct Always {
    bool requested() const { return true; }
  } always;
  const Interruptible outer(&always);
  CHECK(interruption_requested());
  {
    const Interruptible inner(static_cast<Always*>(nullptr));
    CHECK(!interruption_requested());
  }
  CHECK_THROWS_AS(poll_interruption(), Error);
}

}  // namespace
}  // namespace warplite::compute

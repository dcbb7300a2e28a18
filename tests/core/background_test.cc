// Work on another thread: it ends before its owner does, and no child of fork() waits for it.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "core/process/background.h"
#include "core/process/interruption.h"

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace warplite {
namespace {

using std::chrono::milliseconds;

// Until somebody tells it to end.
void go_on() {
  for (;;) {
    poll_interruption();
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST_CASE("background: work is done on another thread, and what it throws is thrown again") {
  std::thread::id on;
  Background work([&] { on = std::this_thread::get_id(); });
  while (!work.wait(milliseconds(5))) {
  }
  work.rethrow();
  CHECK(on != std::thread::id());
  CHECK(on != std::this_thread::get_id());

  Background fails([] { throw std::runtime_error("no"); });
  while (!fails.wait(milliseconds(5))) {
  }
  CHECK_THROWS_AS(fails.rethrow(), std::runtime_error);
}

TEST_CASE("background: work that nobody waits for is told to end, and has ended") {
  std::atomic<bool> ended{false};
  {
    Background work([&] {
      try {
        go_on();
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::kInterrupted);
        ended = true;
      }
    });
    CHECK(!work.wait(milliseconds(20)));
    CHECK(!ended);
  }
  CHECK(ended);
}

#if !defined(_WIN32)
TEST_CASE("background: a forked child does not wait for its parent's work") {
  std::atomic<bool> end{false};
  alignas(Background) std::byte memory[sizeof(Background)];
  auto* const work = new (memory) Background([&] {
    while (!end) std::this_thread::sleep_for(milliseconds(1));
  });
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    const bool waited = work->is_here() || work->wait(milliseconds(1));
    work->~Background();
    _exit(waited ? 1 : 0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  end = true;
  work->~Background();
}

#if !defined(__SANITIZE_THREAD__)  // its runtime ends a forked child that starts threads
TEST_CASE("background: a child that was forked while others waited has work of its own done") {
  for (int round = 0; round < 6; ++round) {
    std::atomic<bool> end{false};
    std::thread waits([&] {
      Background work([&] {
        while (!end) std::this_thread::sleep_for(milliseconds(1));
      });
      while (!work.wait(milliseconds(5))) {
      }
    });
    std::this_thread::sleep_for(milliseconds(10 + round));
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(20);
      for (int i = 0; i < 100; ++i) {
        Background work([] {});
        while (!work.wait(milliseconds(5))) {
        }
      }
      _exit(0);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    end = true;
    waits.join();
  }
}
#endif
#endif

}  // namespace
}  // namespace warplite

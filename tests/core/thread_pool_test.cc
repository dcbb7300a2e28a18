// cpu/runtime/thread_pool: every number is run at most once, callers do not disturb each other,
// a forked child can search, no waiting for workers that never came; cpu/runtime/item_loop ends.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <thread>
#include <vector>

#include "core/error.h"
#include "cpu/runtime/item_loop.h"
#include "cpu/runtime/thread_pool.h"

using warplite::cpu::run_on_pool;
using warplite::cpu::ThreadPool;

namespace {

// Sums 0 … n − 1 by tasks taken from a common counter.
long sum_on(unsigned threads, long n) {
  std::atomic<long> next{0}, total{0};
  std::vector<std::atomic<int>> calls(threads);
  run_on_pool(
      threads,
      [&](unsigned number) {
        ++calls[number];
        for (long i = next++; i < n; i = next++) total += i;
      },
      [] {});
  for (const auto& count : calls) REQUIRE(count <= 1);
  REQUIRE(calls[0] == 1);
  return total;
}

constexpr long kTasks = 2000;
constexpr long kSum = kTasks * (kTasks - 1) / 2;

}  // namespace

TEST_CASE("thread pool: all tasks are done, for growing and shrinking numbers of threads") {
  for (unsigned threads : {1u, 2u, 5u, 3u, 1u, 8u}) CHECK(sum_on(threads, kTasks) == kSum);
}

// Whichever thread comes first.
TEST_CASE("item loop: one that is asked to end before it begins takes no item") {
  class Ended : public warplite::compute::Cancellation {
    bool requested() override { return true; }
  };
  Ended ended;
  for (int round = 0; round < 1000; ++round) {
    std::atomic<int> taken{0};
    warplite::cpu::ItemLoop loop(&ended);
    CHECK_THROWS_AS(loop.run(4, 4, [&](unsigned, std::size_t) { ++taken; }), warplite::Error);
    REQUIRE(taken == 0);
  }
}

TEST_CASE("thread pool: several callers at once") {
  std::atomic<int> right{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) right += sum_on(3, kTasks) == kSum;
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(right == 300);
}

TEST_CASE("thread pool: the caller is asked to wait only while others work") {
  std::atomic<bool> release{false}, joined{false};
  int asked = 0;
  ThreadPool::instance().run(
      2,
      [&](unsigned number) {
        if (number == 0) {
          for (int i = 0; i < 2000 && !joined; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          return;
        }
        joined = true;
        while (!release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      [&] {
        ++asked;
        release = true;
      });
  CHECK(joined);
  CHECK(asked >= 1);
}

#if !defined(__SANITIZE_THREAD__)  // its runtime ends a forked child that starts threads
TEST_CASE("thread pool: a forked child starts its own threads") {
  REQUIRE(sum_on(2, kTasks) == kSum);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    std::atomic<int> seen{0};
    ThreadPool::instance().run(
        2,
        [&](unsigned) {
          ++seen;
          for (int i = 0; i < 5000 && seen < 2; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        },
        [] {});
    _exit(seen == 2 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(sum_on(2, kTasks) == kSum);
}
#endif

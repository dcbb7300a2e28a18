// Work shared among threads: every part of it is done once, and what fails is told.
#include "compute/parallel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

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

}  // namespace
}  // namespace warplite::compute

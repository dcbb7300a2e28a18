// What every conformance test says of a device's hits and of its interrupted searches, and how its
// combinations are made.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "compute/device.h"

namespace warplite::testing {

// Values that take turns, so that many combinations occur without all being run.
template <class T>
T turn(std::initializer_list<T> values, std::uint64_t n) {
  return values.begin()[n % values.size()];
}

// Equal bit for bit and in order. The first that differs is told before a difference in number.
inline void expect_hits(std::span<const Hit> expected, std::span<const Hit> found,
                        std::size_t query) {
  for (std::size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    const Hit &a = expected[i], &b = found[i];
    if (std::bit_cast<std::uint64_t>(a.distance) == std::bit_cast<std::uint64_t>(b.distance) &&
        a.rowid == b.rowid && a.block == b.block && a.row == b.row) {
      continue;
    }
    FAIL("query ", query, " hit ", i, " expected ", a.distance, " row ", a.rowid, " found ",
         b.distance, " row ", b.rowid);
  }
  REQUIRE_MESSAGE(expected.size() == found.size(), "query ", query);
}

// Has no room for anything that a device would keep for the next search.
class NoRoom : public compute::MemoryBudget {
 public:
  static NoRoom& instance() {
    static NoRoom budget;
    return budget;
  }
  bool reserve(std::span<const Growth>) noexcept override { return false; }
  void give_back(std::span<const Growth>) noexcept override {}
};

// What the CPU's searches look at between two questions whether to go on took 6 ms at most (SSE2, a core of
// Sapphire Rapids). Machines may be busy, and sanitizers look at every byte of a row besides.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kSoonSeconds = 20;
#else
inline constexpr double kSoonSeconds = 2;
#endif

// A search whose cancellation asks it to end: it does so soon, and says so.
template <class Search>
void expect_interrupted(const Search& search) {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = search();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  CHECK(status.kind == ErrorKind::kInterrupted);
  CHECK(status.message == "interrupted");
  CHECK(time.count() < kSoonSeconds);
}

}  // namespace warplite::testing

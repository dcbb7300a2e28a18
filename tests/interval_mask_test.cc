// The vectorised test of an interval against the comparison it stands for.
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "engine/interval_mask.h"

namespace warplite::engine {
namespace {

template <typename T>
void check(const std::vector<T>& candidates) {
  std::mt19937 random(7);
  const auto any = [&] { return candidates[random() % candidates.size()]; };
  for (int round = 0; round < 20000; ++round) {
    std::vector<T> values(65);
    for (T& value : values) value = any();
    const Interval<T> interval{any(), any()};
    if (interval.empty()) continue;
    const T* first = values.data() + round % 2;  // alignment must not matter
    const std::uint64_t mask = interval_mask(first, interval);
    for (int i = 0; i < 64; ++i) {
      if ((mask >> i & 1) == (interval.contains(first[i]) ? 1u : 0u)) continue;
      FAIL("value " << first[i] << " in [" << interval.low << ", " << interval.high << "]");
    }
  }
}

TEST_CASE("interval mask: integers, up to the ends of their range") {
  using Limits = std::numeric_limits<std::int64_t>;
  std::vector<std::int64_t> candidates = {Limits::min(), Limits::min() + 1, -1, 0, 1,
                                          Limits::max() - 1, Limits::max()};
  for (std::int64_t i = -20; i < 20; ++i) candidates.push_back(i);
  for (int shift = 30; shift < 63; shift += 4) candidates.push_back(std::int64_t{1} << shift);
  check(candidates);
}

TEST_CASE("interval mask: reals, with zeros of both signs, the smallest and infinity") {
  using Limits = std::numeric_limits<double>;
  check<double>({-Limits::infinity(), -1e300, -2.5, -1, -Limits::denorm_min(), -0.0, 0.0,
                 Limits::denorm_min(), 1, 2.5, 1e300, Limits::max(), Limits::infinity()});
}

}  // namespace
}  // namespace warplite::engine

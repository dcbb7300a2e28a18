// The vectorised test of an interval against the comparison it stands for.
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "engine/filter/interval_mask.h"

namespace warplite::engine {
namespace {

template <typename T>
void check(const std::vector<T>& candidates) {
  std::mt19937 random(7);
  const auto any = [&] { return candidates[random() % candidates.size()]; };
  for (int round = 0; round < 20000; ++round) {
    const std::size_t words = 1 + static_cast<std::size_t>(round) % 3;
    std::vector<T> values(words * 64 + 1);
    for (T& value : values) value = any();
    const Interval<T> interval{any(), any()};
    if (interval.empty()) continue;
    const T* first = values.data() + round % 2;  // alignment must not matter
    std::uint64_t masks[3];
    interval_masks(first, words, interval, masks);
    for (std::size_t i = 0; i < words * 64; ++i) {
      if ((masks[i / 64] >> i % 64 & 1) == (interval.contains(first[i]) ? 1u : 0u)) continue;
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

TEST_CASE("length mask: every length at every place, also where ends wrap around") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint32_t> ends(129);
    ends[0] = round % 2 == 0 ? static_cast<std::uint32_t>(random()) : 0xfffffff0;
    for (std::size_t i = 1; i < ends.size(); ++i) {
      ends[i] = ends[i - 1] + static_cast<std::uint32_t>(random() % 5);
    }
    const auto length = static_cast<std::uint32_t>(random() % 6);
    std::uint64_t masks[2];
    length_masks(ends.data() + 1, 2, length, masks);
    std::size_t bits = 0;
    for (std::size_t i = 0; i < 128; ++i) {
      const bool equal = ends[i + 1] - ends[i] == length;
      bits += equal;
      CHECK((masks[i / 64] >> i % 64 & 1) == (equal ? 1u : 0u));
    }
    CHECK(count_bits(masks, 2) == bits);
  }
}

}  // namespace
}  // namespace warplite::engine

// The vectorised test of an interval against the comparison it stands for.
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "cpu/host/kernels.h"
#include "engine/filter/interval_mask.h"
#include "tests/support/conformance_devices.h"

namespace warplite::engine {
namespace {

template <typename T>
void check_target(const std::vector<T>& candidates) {
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

template <typename T>
void check(const std::vector<T>& candidates) {
  const warplite::testing::Restore restore;
  compute::set_host_kernels(cpu::host_kernels);
  for (const std::string& target : cpu::simd_targets()) {
    CAPTURE(target);
    cpu::force_simd_target(target);
    check_target(candidates);
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

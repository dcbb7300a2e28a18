#include "engine/interval_mask.h"

#include <cstring>

namespace warplite::engine {
namespace {

// One comparison for both bounds: what is below `low` wraps around and is large.
bool inside(std::int64_t value, const Interval<std::int64_t>& interval) {
  const auto low = static_cast<std::uint64_t>(interval.low);
  return static_cast<std::uint64_t>(value) - low <= static_cast<std::uint64_t>(interval.high) - low;
}

bool inside(double value, const Interval<double>& interval) {
  return (value >= interval.low) & (value <= interval.high);
}

// Two words at a time, so that one addition need not wait for the other.
template <typename T>
std::uint64_t mask_one_by_one(const T* values, const Interval<T>& interval) {
  std::uint64_t low = 0, high = 0;
  for (int i = 31; i >= 0; --i) {
    low = low + low + inside(values[i], interval);
    high = high + high + inside(values[i + 32], interval);
  }
  return low | high << 32;
}

#if defined(__x86_64__) && defined(__GNUC__)

constexpr int kLanes = 4;
template <typename T>
struct Lanes {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));
};

// Compilers left alone turn the scalar loop into vectors of AVX2 only when all code may use it.
template <typename T>
__attribute__((target("avx2"))) std::uint64_t mask_avx2(const T* values,
                                                        const Interval<T>& interval) {
  using Values = typename Lanes<T>::type;
  using Words = typename Lanes<std::uint64_t>::type;
  Words outside = {};
#pragma GCC unroll 16
  for (int group = 0; group < 64 / kLanes; ++group) {
    Values at;
    std::memcpy(&at, values + group * kLanes, sizeof at);
    const Words group_bit = Words{} + (std::uint64_t{1} << (group * kLanes));
    outside |= ((at < interval.low) | (at > interval.high)) & group_bit;
  }
  return ~(outside[0] | outside[1] << 1 | outside[2] << 2 | outside[3] << 3);
}

template <typename T>
std::uint64_t mask(const T* values, const Interval<T>& interval) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2 ? mask_avx2(values, interval) : mask_one_by_one(values, interval);
}

#else

template <typename T>
std::uint64_t mask(const T* values, const Interval<T>& interval) {
  return mask_one_by_one(values, interval);
}

#endif

}  // namespace

std::uint64_t interval_mask(const std::int64_t* values, const Interval<std::int64_t>& interval) {
  return mask(values, interval);
}

std::uint64_t interval_mask(const double* values, const Interval<double>& interval) {
  return mask(values, interval);
}

}  // namespace warplite::engine

#include "engine/filter/interval_mask.h"

#include <bit>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define WARPLITE_MASKS_AVX2 1
#endif

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
template <typename Test>
std::uint64_t mask_one_by_one(const Test& test) {
  std::uint64_t low = 0, high = 0;
  for (int i = 31; i >= 0; --i) {
    low = low + low + test(i);
    high = high + high + test(i + 32);
  }
  return low | high << 32;
}

template <typename T>
void intervals_one_by_one(const T* values, std::size_t words, const Interval<T>& interval,
                          std::uint64_t* masks) {
  for (std::size_t w = 0; w < words; ++w, values += 64) {
    masks[w] = mask_one_by_one([&](int i) { return inside(values[i], interval); });
  }
}

void lengths_one_by_one(const std::uint32_t* ends, std::size_t words, std::uint32_t length,
                        std::uint64_t* masks) {
  for (std::size_t w = 0; w < words; ++w, ends += 64) {
    masks[w] = mask_one_by_one([&](int i) { return ends[i] - ends[i - 1] == length; });
  }
}

std::size_t count_one_by_one(const std::uint64_t* words, std::size_t n) {
  std::size_t bits = 0;
  for (std::size_t w = 0; w < n; ++w) bits += static_cast<std::size_t>(std::popcount(words[w]));
  return bits;
}

#ifdef WARPLITE_MASKS_AVX2

// The instruction set is not left to the compiler: it vectorises these loops only when all code may
// use AVX2.
#define WARPLITE_AVX2 __attribute__((target("avx2,popcnt")))

bool has_avx2() {
  static const bool has =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("popcnt") != 0;
  return has;
}

struct IntegersOutside {
  __m256i low, high;
  WARPLITE_AVX2 explicit IntegersOutside(const Interval<std::int64_t>& interval)
      : low(_mm256_set1_epi64x(interval.low)), high(_mm256_set1_epi64x(interval.high)) {}
  WARPLITE_AVX2 int operator()(const std::int64_t* values) const {
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
    const __m256i outside =
        _mm256_or_si256(_mm256_cmpgt_epi64(low, at), _mm256_cmpgt_epi64(at, high));
    return _mm256_movemask_pd(_mm256_castsi256_pd(outside));
  }
};

struct RealsOutside {
  __m256d low, high;
  WARPLITE_AVX2 explicit RealsOutside(const Interval<double>& interval)
      : low(_mm256_set1_pd(interval.low)), high(_mm256_set1_pd(interval.high)) {}
  WARPLITE_AVX2 int operator()(const double* values) const {
    const __m256d at = _mm256_loadu_pd(values);
    return _mm256_movemask_pd(
        _mm256_or_pd(_mm256_cmp_pd(at, low, _CMP_LT_OQ), _mm256_cmp_pd(at, high, _CMP_GT_OQ)));
  }
};

template <typename Outside, typename T>
WARPLITE_AVX2 void intervals_avx2(const T* values, std::size_t words, const Interval<T>& interval,
                                  std::uint64_t* masks) {
  const Outside outside(interval);
  for (std::size_t w = 0; w < words; ++w, values += 64) {
    std::uint64_t mask = 0;
#pragma GCC unroll 16
    for (int at = 0; at < 64; at += 4) {
      mask |= static_cast<std::uint64_t>(outside(values + at)) << at;
    }
    masks[w] = ~mask;
  }
}

WARPLITE_AVX2 __m256i load_eight(const std::uint32_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

WARPLITE_AVX2 void lengths_avx2(const std::uint32_t* ends, std::size_t words, std::uint32_t length,
                                std::uint64_t* masks) {
  const __m256i wanted = _mm256_set1_epi32(static_cast<int>(length));
  for (std::size_t w = 0; w < words; ++w, ends += 64) {
    std::uint64_t mask = 0;
#pragma GCC unroll 8
    for (int at = 0; at < 64; at += 8) {
      const __m256i lengths = _mm256_sub_epi32(load_eight(ends + at), load_eight(ends + at - 1));
      const __m256 equal = _mm256_castsi256_ps(_mm256_cmpeq_epi32(lengths, wanted));
      mask |= static_cast<std::uint64_t>(_mm256_movemask_ps(equal)) << at;
    }
    masks[w] = mask;
  }
}

WARPLITE_AVX2 std::size_t count_popcnt(const std::uint64_t* words, std::size_t n) {
  std::size_t bits = 0;
  for (std::size_t w = 0; w < n; ++w) {
    bits += static_cast<std::size_t>(__builtin_popcountll(words[w]));
  }
  return bits;
}

#endif

}  // namespace

void interval_masks(const std::int64_t* values, std::size_t words,
                    const Interval<std::int64_t>& interval, std::uint64_t* masks) {
#ifdef WARPLITE_MASKS_AVX2
  if (has_avx2()) return intervals_avx2<IntegersOutside>(values, words, interval, masks);
#endif
  intervals_one_by_one(values, words, interval, masks);
}

void interval_masks(const double* values, std::size_t words, const Interval<double>& interval,
                    std::uint64_t* masks) {
#ifdef WARPLITE_MASKS_AVX2
  if (has_avx2()) return intervals_avx2<RealsOutside>(values, words, interval, masks);
#endif
  intervals_one_by_one(values, words, interval, masks);
}

void length_masks(const std::uint32_t* ends, std::size_t words, std::uint32_t length,
                  std::uint64_t* masks) {
#ifdef WARPLITE_MASKS_AVX2
  if (has_avx2()) return lengths_avx2(ends, words, length, masks);
#endif
  lengths_one_by_one(ends, words, length, masks);
}

std::size_t count_bits(const std::uint64_t* words, std::size_t n) {
#ifdef WARPLITE_MASKS_AVX2
  if (has_avx2()) return count_popcnt(words, n);
#endif
  return count_one_by_one(words, n);
}

}  // namespace warplite::engine

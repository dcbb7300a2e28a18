#include "cpu/ivf/rabitq_vbmi.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>

#include <algorithm>

#include "compute/rabitq.h"
#include "cpu/runtime/highway_config.h"

#include <hwy/base.h>

// GCC 12 says so of its own intrinsics.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define WARPLITE_VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))

namespace warplite::cpu {
namespace {

constexpr std::uint32_t kRows = compute::RabitqGroup::kRows;
constexpr std::uint32_t kTogether = 4;  // sub-spaces

// What brings four sub-spaces of sixteen rows together row by row, and which of four tables each
// byte is looked up in then.
struct RowOrder {
  alignas(64) std::uint8_t from[64], table[64];

  constexpr RowOrder() : from{}, table{} {
    for (std::size_t i = 0; i < 64; ++i) {
      from[i] = static_cast<std::uint8_t>(i % 4 * 16 + i / 4);
      table[i] = static_cast<std::uint8_t>(i % 4 * 16);
    }
  }
};
constexpr RowOrder kRowOrder;

// Sums of pairs of sub-spaces, 16 bits each: of rows 0 … 15, and of the others.
struct PairSums {
  __m512i lower, upper;
};

WARPLITE_VBMI inline void add(const PairSums& more, PairSums& sums) {
  sums.lower = _mm512_add_epi16(sums.lower, more.lower);
  sums.upper = _mm512_add_epi16(sums.upper, more.upper);
}

WARPLITE_VBMI inline PairSums look_up(__m512i codes, __m512i tables) {
  constexpr int kOrOfAnd = 0xea;  // (a & b) | c
  const __m512i half = _mm512_set1_epi8(15), ones = _mm512_set1_epi8(1);
  const __m512i own = _mm512_load_si512(kRowOrder.table);
  const __m512i rows = _mm512_permutexvar_epi8(_mm512_load_si512(kRowOrder.from), codes);
  const __m512i low = _mm512_ternarylogic_epi64(rows, half, own, kOrOfAnd);
  const __m512i high = _mm512_ternarylogic_epi64(_mm512_srli_epi16(rows, 4), half, own, kOrOfAnd);
  const __m512i lows = _mm512_permutexvar_epi8(low, tables);
  const __m512i highs = _mm512_permutexvar_epi8(high, tables);
  return {_mm512_maddubs_epi16(lows, ones), _mm512_maddubs_epi16(highs, ones)};
}

}  // namespace

WARPLITE_VBMI void rabitq_sums_vbmi(const RabitqScores& of, std::int32_t* out) {
  // So many that a pair's sums fit 15 bits.
  constexpr std::uint32_t kMost = 32767 / (2 * 255) * kTogether;
  const std::uint32_t size = compute::RabitqGroup(of.m).size;
  const __m512i ones = _mm512_set1_epi16(1);
  for (std::uint32_t left = of.which; left != 0; left &= left - 1) {
    const auto g = static_cast<std::size_t>(std::countr_zero(left));
    const std::uint8_t* const codes = of.groups + g * size;
    __m512i lower = _mm512_setzero_si512(), upper = lower;
    for (std::uint32_t s = 0; s < of.m;) {
      PairSums pairs{_mm512_setzero_si512(), _mm512_setzero_si512()};
      const std::uint32_t end = std::min(of.m - s, kMost) + s;
      HWY_UNROLL(4)
      for (; s + kTogether <= end; s += kTogether) {
        add(look_up(_mm512_loadu_si512(codes + s * 16), _mm512_loadu_si512(of.entries + s * 16)),
            pairs);
      }
      if (s != end) {
        const __mmask64 rest = (std::uint64_t{1} << (end - s) * 16) - 1;
        add(look_up(_mm512_maskz_loadu_epi8(rest, codes + s * 16),
                    _mm512_maskz_loadu_epi8(rest, of.entries + s * 16)),
            pairs);
        s = end;
      }
      lower = _mm512_add_epi32(lower, _mm512_madd_epi16(pairs.lower, ones));
      upper = _mm512_add_epi32(upper, _mm512_madd_epi16(pairs.upper, ones));
    }
    _mm512_storeu_si512(out + g * kRows, lower);
    _mm512_storeu_si512(out + g * kRows + 16, upper);
  }
}

}  // namespace warplite::cpu
#endif

#include "cpu/ivf/rabitq_vbmi.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "compute/rabitq.h"
#include "cpu/runtime/highway_config.h"

#include <hwy/base.h>

// GCC 12 says so of its own intrinsics.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define WARPLITE_VBMI \
  __attribute__((     \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni,popcnt")))

namespace warplite::cpu {
namespace {

constexpr std::uint32_t kRows = compute::RabitqGroup::kRows;
constexpr std::uint32_t kSpaces = 4;  // sub-spaces of a vector

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

// What makes float32 of 32 bfloat16: of the first sixteen, and of the others.
struct WideOrder {
  alignas(64) std::uint16_t from[2][32];

  constexpr WideOrder() : from{} {
    for (std::size_t i = 0; i < 32; ++i) {
      from[0][i] = static_cast<std::uint16_t>(i / 2);
      from[1][i] = static_cast<std::uint16_t>(16 + i / 2);
    }
  }
};
constexpr WideOrder kWideOrder;

struct RowNumbers {
  alignas(32) std::uint8_t of[kRows];

  constexpr RowNumbers() : of{} {
    for (std::size_t i = 0; i < kRows; ++i) of[i] = static_cast<std::uint8_t>(i);
  }
};
constexpr RowNumbers kRowNumbers;

// One bit in each byte.
struct BitBytes {
  alignas(64) std::uint8_t of[8][64];

  constexpr BitBytes() : of{} {
    for (std::size_t bit = 0; bit < 8; ++bit) {
      for (std::uint8_t& byte : of[bit]) byte = static_cast<std::uint8_t>(1u << bit);
    }
  }
};
constexpr BitBytes kBitBytes;

// Of rows 0 … 15, and of the others.
struct Sums {
  __m512i lower, upper;
};

// Where four sub-spaces of each row are looked up.
WARPLITE_VBMI HWY_INLINE Sums places_of(__m512i codes) {
  constexpr int kOrOfAnd = 0xea;  // (a & b) | c
  const __m512i half = _mm512_set1_epi8(15);
  const __m512i own = _mm512_load_si512(kRowOrder.table);
  const __m512i rows = _mm512_permutexvar_epi8(_mm512_load_si512(kRowOrder.from), codes);
  return {_mm512_ternarylogic_epi64(rows, half, own, kOrOfAnd),
          _mm512_ternarylogic_epi64(_mm512_srli_epi16(rows, 4), half, own, kOrOfAnd)};
}

WARPLITE_VBMI HWY_INLINE void add(const Sums& places, __m512i tables, Sums& sums) {
  const __m512i ones = _mm512_set1_epi8(1);
  sums.lower = _mm512_dpbusd_epi32(sums.lower, _mm512_permutexvar_epi8(places.lower, tables), ones);
  sums.upper = _mm512_dpbusd_epi32(sums.upper, _mm512_permutexvar_epi8(places.upper, tables), ones);
}

// A value of each row.
struct Values {
  __m512 lower, upper;
};

// float32 of 32 bfloat16.
WARPLITE_VBMI HWY_INLINE Values of_bfloats(const std::uint8_t* from) {
  constexpr __mmask32 kHigh = 0xaaaaaaaa;
  const __m512i all = _mm512_loadu_si512(from);
  const __m512i first = _mm512_load_si512(kWideOrder.from[0]);
  const __m512i second = _mm512_load_si512(kWideOrder.from[1]);
  return {_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(kHigh, first, all)),
          _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(kHigh, second, all))};
}

// `low` of sixteen rows.
WARPLITE_VBMI HWY_INLINE __m512 low_of(__m512i sums, __m512 bias, __m512 f, __m512 g, __m512 middle,
                                       const RabitqLook& query) {
  const __m512 product =
      _mm512_mul_ps(_mm512_set1_ps(query.unit), _mm512_sub_ps(_mm512_cvtepi32_ps(sums), middle));
  const __m512 score =
      _mm512_add_ps(_mm512_add_ps(_mm512_set1_ps(query.a), bias), _mm512_mul_ps(f, product));
  return _mm512_sub_ps(score, _mm512_mul_ps(g, _mm512_set1_ps(query.norm)));
}

// A bit for each of sixteen rows that is near enough.
WARPLITE_VBMI HWY_INLINE __mmask16 near_enough(__m512 low, const RabitqLook& query) {
  return _mm512_cmp_ps_mask(low, _mm512_set1_ps(query.limit), _CMP_NGT_UQ);
}

// Keeps what a query has found in a group, and the places of rows that count and are near enough.
WARPLITE_VBMI HWY_INLINE void keep(const Sums& sums, const Values& lows, std::size_t group,
                                   __mmask32 counts, RabitqLook& query) {
  const std::size_t first = group * kRows;
  _mm512_storeu_si512(query.sums + first, sums.lower);
  _mm512_storeu_si512(query.sums + first + 16, sums.upper);
  _mm512_storeu_ps(query.lows + first, lows.lower);
  _mm512_storeu_ps(query.lows + first + 16, lows.upper);
  const __mmask32 near =
      counts & _mm512_kunpackw(near_enough(lows.upper, query), near_enough(lows.lower, query));
  const __m256i places =
      _mm256_add_epi8(_mm256_load_si256(reinterpret_cast<const __m256i*>(kRowNumbers.of)),
                      _mm256_set1_epi8(static_cast<char>(first)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(query.places + query.found),
                      _mm256_maskz_compress_epi8(near, places));
  query.found += static_cast<std::size_t>(std::popcount(near));
}

// The rows of a group for some queries: what its bytes become is shared. kWhole: its
// sub-spaces fill vectors.
template <std::size_t Queries, bool kWhole>
WARPLITE_VBMI HWY_INLINE void look_at_group(const std::uint8_t* codes, const RabitqGroups& of,
                                            std::size_t g, RabitqLook* queries) {
  const compute::RabitqGroup group(of.m);
  Sums sums[Queries];
  for (Sums& of_query : sums) of_query = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  std::uint32_t s = 0;
  for (; s + kSpaces <= of.m; s += kSpaces) {
    const Sums places = places_of(_mm512_loadu_si512(codes + s * 16));
    HWY_UNROLL(4)
    for (std::size_t q = 0; q < Queries; ++q) {
      add(places, _mm512_loadu_si512(queries[q].entries + s * 16), sums[q]);
    }
  }
  if constexpr (!kWhole) {
    const __mmask64 rest = (std::uint64_t{1} << (of.m - s) * 16) - 1;
    const Sums places = places_of(_mm512_maskz_loadu_epi8(rest, codes + s * 16));
    HWY_UNROLL(4)
    for (std::size_t q = 0; q < Queries; ++q) {
      add(places, _mm512_maskz_loadu_epi8(rest, queries[q].entries + s * 16), sums[q]);
    }
  }
  const Values biases = of_bfloats(codes + group.bias), f = of_bfloats(codes + group.f),
               errors = of_bfloats(codes + group.g);
  const __m512 middle = _mm512_set1_ps(128.0f * static_cast<float>(of.m));
  const std::uint32_t counts = of.counts[g];
  HWY_UNROLL(4)
  for (std::size_t q = 0; q < Queries; ++q) {
    RabitqLook& query = queries[q];
    const Values lows{low_of(sums[q].lower, biases.lower, f.lower, errors.lower, middle, query),
                      low_of(sums[q].upper, biases.upper, f.upper, errors.upper, middle, query)};
    keep(sums[q], lows, g, counts, query);
  }
}

template <std::size_t Queries, bool kWhole>
WARPLITE_VBMI void look_at_all(const RabitqGroups& of, RabitqLook* queries) {
  const std::uint32_t size = compute::RabitqGroup(of.m).size;
  for (std::uint32_t left = of.which; left != 0; left &= left - 1) {
    const auto g = static_cast<std::size_t>(std::countr_zero(left));
    look_at_group<Queries, kWhole>(of.first + g * size, of, g, queries);
  }
}

template <bool kWhole>
WARPLITE_VBMI void look(const RabitqGroups& of, RabitqLook* queries, std::size_t n) {
  std::size_t q = 0;
  for (; q + 4 <= n; q += 4) look_at_all<4, kWhole>(of, queries + q);
  for (; q + 2 <= n; q += 2) look_at_all<2, kWhole>(of, queries + q);
  for (; q < n; ++q) look_at_all<1, kWhole>(of, queries + q);
}

// The sum of each of four vectors.
WARPLITE_VBMI HWY_INLINE __m128i totals(const __m512i (&of)[4]) {
  const __m512i ab =
      _mm512_add_epi32(_mm512_unpacklo_epi32(of[0], of[1]), _mm512_unpackhi_epi32(of[0], of[1]));
  const __m512i cd =
      _mm512_add_epi32(_mm512_unpacklo_epi32(of[2], of[3]), _mm512_unpackhi_epi32(of[2], of[3]));
  const __m512i all =
      _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i two =
      _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}

// The codes of a row's elements, from a bit of each in so many planes, the highest first.
template <std::uint32_t kPlanes>
WARPLITE_VBMI HWY_INLINE __m512i codes_of(const std::uint8_t* planes, std::size_t bytes) {
  __m512i codes = _mm512_setzero_si512();
  HWY_UNROLL(8)
  for (std::uint32_t p = 0; p < kPlanes; ++p) {
    std::uint64_t bits;
    std::memcpy(&bits, planes + p * bytes, sizeof bits);
    const __m512i weight = _mm512_load_si512(kBitBytes.of[kPlanes - 1 - p]);
    codes = _mm512_mask_add_epi8(codes, bits, codes, weight);
  }
  return codes;
}

// Σ e·v of each four rows.
template <std::uint32_t kPlanes>
WARPLITE_VBMI void dots(const std::int8_t* elements, const std::uint8_t* const* planes,
                        std::size_t n, std::uint32_t dim, std::int32_t* out) {
  const std::size_t bytes = compute::plane_bytes(dim);
  for (std::size_t first = 0; first < n; first += 4) {
    const std::uint8_t* rows[4];
    for (std::size_t r = 0; r < 4; ++r) rows[r] = planes[std::min(first + r, n - 1)];
    __m512i sums[4] = {};
    for (std::uint32_t i = 0; i < dim; i += 64) {
      const __m512i own = _mm512_loadu_si512(elements + i);
      HWY_UNROLL(4)
      for (std::size_t r = 0; r < 4; ++r) {
        sums[r] = _mm512_dpbusd_epi32(sums[r], codes_of<kPlanes>(rows[r] + i / 8, bytes), own);
      }
    }
    const auto there = static_cast<__mmask8>(n - first < 4 ? (1u << (n - first)) - 1 : 15u);
    _mm_mask_storeu_epi32(out + first, there, totals(sums));
  }
}

}  // namespace

void rabitq_look_vbmi(const RabitqGroups& of, RabitqLook* queries, std::size_t n) {
  (of.m % kSpaces == 0 ? look<true> : look<false>)(of, queries, n);
}

void rabitq_dots_vbmi(const std::int8_t* elements, const std::uint8_t* const* planes, std::size_t n,
                      std::uint32_t count, std::uint32_t dim, std::int32_t* out) {
  static constexpr void (*kDots[])(const std::int8_t*, const std::uint8_t* const*, std::size_t,
                                   std::uint32_t, std::int32_t*) = {
      dots<1>, dots<2>, dots<3>, dots<4>, dots<5>, dots<6>, dots<7>, dots<8>};
  static_assert(std::size(kDots) == compute::kMostPlanes);
  kDots[count - 1](elements, planes, n, dim, out);
}

}  // namespace warplite::cpu
#endif

// Sums of look-ups by 4-bit codes of 32 rows (compute/ivf.h has their layout), on vectors of one
// SIMD target. Included once per target, after hwy/highway.h.
#if defined(WARPLITE_NIBBLES) == defined(HWY_TARGET_TOGGLE)
#ifdef WARPLITE_NIBBLES
#undef WARPLITE_NIBBLES
#else
#define WARPLITE_NIBBLES
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace nibbles {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// 32 rows for each of `Queries`.
template <std::size_t Queries, class Sum>
HWY_INLINE void sum_group(const std::uint8_t* const* entries, const std::uint8_t* codes,
                          std::uint32_t m, std::size_t at, Sum* const* sums) {
  for (std::size_t q = 0; q < Queries; ++q) {
    std::uint32_t totals[32] = {};
    for (std::uint32_t s = 0; s < m; ++s) {
      for (std::size_t i = 0; i < 16; ++i) {
        totals[i] += entries[q][s * 16 + (codes[s * 16 + i] & 15)];
        totals[i + 16] += entries[q][s * 16 + (codes[s * 16 + i] >> 4)];
      }
    }
    for (std::size_t i = 0; i < 32; ++i) sums[q][at + i] = static_cast<Sum>(totals[i]);
  }
}

#else

// Each 16 bytes are one sub-space.
using Octets = hn::CappedTag<std::uint8_t, 64>;
constexpr Octets kOctets;
using Words = hn::Repartition<std::uint16_t, Octets>;
constexpr Words kWords;
constexpr std::size_t kSpaces = hn::MaxLanes(kOctets) / 16;  // of a vector
constexpr hn::FixedTag<std::uint16_t, 8> kEight;
using OctetVector = hn::VFromD<Octets>;
using WordVector = hn::VFromD<Words>;

// Sums of bytes in words: `both` adds pairs as they lie, `odd` their upper bytes alone.
struct PairSums {
  WordVector both, odd;
  HWY_INLINE PairSums() : both(hn::Zero(kWords)), odd(hn::Zero(kWords)) {}

  HWY_INLINE void add(OctetVector bytes) {
    const WordVector pairs = hn::BitCast(kWords, bytes);
    both = hn::Add(both, pairs);
    odd = hn::Add(odd, hn::ShiftRight<8>(pairs));
  }
  // Sixteen rows, in order.
  template <class Sum>
  HWY_INLINE void write(Sum* sums) const {
    const auto evens = of_all_spaces(kWords, hn::Sub(both, hn::ShiftLeft<8>(odd)));
    const auto odds = of_all_spaces(kWords, odd);
    store(hn::InterleaveLower(kEight, evens, odds), sums);
    store(hn::InterleaveUpper(kEight, evens, odds), sums + 8);
  }

 private:
  using EightVector = hn::VFromD<decltype(kEight)>;
  static HWY_INLINE void store(EightVector sums, std::uint16_t* out) {
    hn::StoreU(sums, kEight, out);
  }
  static HWY_INLINE void store(EightVector sums, std::int32_t* out) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    const hn::FixedTag<std::int32_t, 8> eight;
    hn::StoreU(hn::PromoteTo(eight, sums), eight, out);
#else
    const hn::FixedTag<std::int32_t, 4> four;
    const hn::Half<decltype(kEight)> half;
    hn::StoreU(hn::PromoteTo(four, hn::LowerHalf(half, sums)), four, out);
    hn::StoreU(hn::PromoteTo(four, hn::UpperHalf(half, sums)), four, out + 4);
#endif
  }
  // The sum of the parts of a vector that sub-spaces have.
  template <class D>
  static HWY_INLINE hn::VFromD<decltype(kEight)> of_all_spaces(D, hn::VFromD<D> words) {
    if constexpr (hn::MaxLanes(D()) == 8) {
      return words;
    } else {
      const hn::Half<D> half;
      return of_all_spaces(half, hn::Add(hn::LowerHalf(half, words), hn::UpperHalf(half, words)));
    }
  }
};

template <std::size_t Queries, class Sum>
HWY_INLINE void sum_group(const std::uint8_t* const* entries, const std::uint8_t* codes,
                          std::uint32_t m, std::size_t at, Sum* const* sums) {
  const OctetVector low_half = hn::Set(kOctets, std::uint8_t{15});
  PairSums lower[Queries], upper[Queries];
  std::uint32_t s = 0;
  for (; s + kSpaces <= m; s += kSpaces) {
    const OctetVector both = hn::LoadU(kOctets, codes + s * 16);
    const OctetVector low = hn::And(both, low_half), high = hn::ShiftRight<4>(both);
    HWY_UNROLL(2)
    for (std::size_t q = 0; q < Queries; ++q) {
      const OctetVector table = hn::LoadU(kOctets, entries[q] + s * 16);
      lower[q].add(hn::TableLookupBytes(table, low));
      upper[q].add(hn::TableLookupBytes(table, high));
    }
  }
  // One sub-space at a time, in the first sixteen bytes.
  const OctetVector first =
      hn::IfThenElseZero(hn::FirstN(kOctets, 16), hn::Set(kOctets, std::uint8_t{255}));
  for (; s < m; ++s) {
    const OctetVector both = hn::LoadDup128(kOctets, codes + s * 16);
    const OctetVector low = hn::And(both, low_half), high = hn::ShiftRight<4>(both);
    for (std::size_t q = 0; q < Queries; ++q) {
      const OctetVector table = hn::And(first, hn::LoadDup128(kOctets, entries[q] + s * 16));
      lower[q].add(hn::TableLookupBytes(table, low));
      upper[q].add(hn::TableLookupBytes(table, high));
    }
  }
  for (std::size_t q = 0; q < Queries; ++q) {
    lower[q].write(sums[q] + at);
    upper[q].write(sums[q] + at + 16);
  }
}

#endif

}  // namespace nibbles
}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#endif

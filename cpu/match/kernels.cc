// Match counting on vectors: bitmaps are added by carry-save, 256 or 512 rows at a time, with the
// bits of the sums in a register each.
#include "cpu/match/kernels.h"

#include <bit>
#include <cstring>

#include "cpu/runtime/highway_config.h"
#include "cpu/runtime/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/match/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/match/carry_save-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr Octets kOctets;
constexpr std::size_t kOctetLanes = hn::MaxLanes(kOctets);

HWY_INLINE OctetVector masked(OctetVector v, std::uint8_t mask) {
  return hn::And(v, hn::Set(kOctets, mask));
}

// Four planes of eight rows a byte to nibbles: of rows 0 and 4, 2 and 6, 1 and 5, 3 and 7.
HWY_INLINE void to_nibbles(const OctetVector* planes, OctetVector* nibbles) {
  OctetVector even[2], odd[2];  // two bits for each of the rows 0, 2, 4, 6 and 1, 3, 5, 7
  HWY_UNROLL(2)
  for (std::size_t half = 0; half < 2; ++half) {
    const OctetVector low = planes[2 * half], high = planes[2 * half + 1];
    even[half] = hn::Or(masked(low, 0x55), hn::ShiftLeft<1>(masked(high, 0x55)));
    odd[half] = hn::Or(hn::ShiftRight<1>(masked(low, 0xaa)), masked(high, 0xaa));
  }
  nibbles[0] = hn::Or(masked(even[0], 0x33), hn::ShiftLeft<2>(masked(even[1], 0x33)));
  nibbles[1] = hn::Or(hn::ShiftRight<2>(masked(even[0], 0xcc)), masked(even[1], 0xcc));
  nibbles[2] = hn::Or(masked(odd[0], 0x33), hn::ShiftLeft<2>(masked(odd[1], 0x33)));
  nibbles[3] = hn::Or(hn::ShiftRight<2>(masked(odd[0], 0xcc)), masked(odd[1], 0xcc));
}

// Writes the sums of one column as bytes.
template <std::size_t Planes>
HWY_INLINE void write_column(const OctetVector* planes, std::size_t stride, std::uint8_t* counts) {
  constexpr std::size_t kFirst[4] = {0, 2, 1, 3};  // the row of a low nibble
  OctetVector low[4], high[4];
  to_nibbles(planes, low);
  if constexpr (Planes > 4) to_nibbles(planes + 4, high);
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 4; ++i) {
    OctetVector first = masked(low[i], 0x0f);
    OctetVector second = hn::ShiftRight<4>(low[i]);
    if constexpr (Planes > 4) {
      first = hn::Or(first, hn::ShiftLeft<4>(high[i]));
      second = hn::Or(second, masked(high[i], 0xf0));
    }
    hn::StoreU(first, kOctets, counts + kFirst[i] * stride);
    hn::StoreU(second, kOctets, counts + (kFirst[i] + 4) * stride);
  }
}

template <std::size_t Planes>
void sum_columns(const std::uint8_t* const* bitmaps, std::size_t n, std::size_t stride,
                 std::uint8_t* counts) {
  for (std::size_t at = 0; at < stride; at += kOctetLanes) {
    OctetVector planes[kMostPlanes];
    HWY_UNROLL(8)
    for (std::size_t k = 0; k < kMostPlanes; ++k) planes[k] = hn::Zero(kOctets);
    add_all<Planes>([&](std::size_t i) HWY_ATTR { return hn::LoadU(kOctets, bitmaps[i] + at); },
                    n, planes);
    write_column<Planes>(planes, stride, counts + at);
  }
}

void sum_bitmaps(const std::uint8_t* const* bitmaps, std::size_t n, std::size_t stride,
                 std::uint8_t* counts) {
  if (n < 16) return sum_columns<4>(bitmaps, n, stride, counts);
  if (n < 32) return sum_columns<5>(bitmaps, n, stride, counts);
  if (n < 64) return sum_columns<6>(bitmaps, n, stride, counts);
  sum_columns<8>(bitmaps, n, stride, counts);
}

template <class Count>
using Tag = hn::CappedTag<Count, 64 / sizeof(Count)>;

template <class Count>
HWY_INLINE auto reaches(hn::VFromD<Tag<Count>> counts, hn::VFromD<Tag<Count>> floor) {
  return hn::Eq(hn::Max(counts, floor), counts);
}

template <class Count>
std::size_t at_least(const Count* counts, std::size_t n, Count floor) {
  const Tag<Count> tag;
  const auto least = hn::Set(tag, floor);
  std::size_t found = 0;
  for (std::size_t i = 0; i < n; i += hn::Lanes(tag)) {
    found += hn::CountTrue(tag, reaches<Count>(hn::LoadU(tag, counts + i), least));
  }
  return found;
}

template <class Count>
std::size_t collect(const Count* counts, std::size_t n, Count floor, std::uint32_t* places) {
  const Tag<Count> tag;
  const std::size_t lanes = hn::Lanes(tag);
  const auto least = hn::Set(tag, floor);
  std::size_t found = 0;
  for (std::size_t i = 0; i < n; i += 4 * lanes) {
    const auto most = hn::Max(
        hn::Max(hn::LoadU(tag, counts + i), hn::LoadU(tag, counts + i + lanes)),
        hn::Max(hn::LoadU(tag, counts + i + 2 * lanes), hn::LoadU(tag, counts + i + 3 * lanes)));
    if (hn::AllFalse(tag, reaches<Count>(most, least))) continue;
    for (std::size_t at = i; at < i + 4 * lanes; at += lanes) {
      std::uint8_t bytes[8] = {};
      hn::StoreMaskBits(tag, reaches<Count>(hn::LoadU(tag, counts + at), least), bytes);
      std::uint64_t bits;
      std::memcpy(&bits, bytes, sizeof bits);
      for (; bits != 0; bits &= bits - 1) {
        places[found++] = static_cast<std::uint32_t>(at + std::size_t(std::countr_zero(bits)));
      }
    }
  }
  return found;
}

}  // namespace

void fill_match(MatchKernels& kernels) {
  kernels.sum_bitmaps = sum_bitmaps;
  kernels.bytes = {at_least<std::uint8_t>, collect<std::uint8_t>};
  kernels.shorts = {at_least<std::uint16_t>, collect<std::uint16_t>};
  kernels.words = {at_least<std::uint32_t>, collect<std::uint32_t>};
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

const MatchKernels& match_kernels() {
  static const KernelTables<MatchKernels> tables{WARPLITE_EACH_TARGET(fill_match)};
  return tables.active();
}

}  // namespace warplite::cpu
#endif

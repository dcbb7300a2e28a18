// From the sums of codes to the rows that are near enough, on vectors of one SIMD target.
// Included once per target, after hwy/highway.h.
#if defined(WARPLITE_SURVIVORS) == defined(HWY_TARGET_TOGGLE)
#ifdef WARPLITE_SURVIVORS
#undef WARPLITE_SURVIVORS
#else
#define WARPLITE_SURVIVORS
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {

template <class Floats>
HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> load_sums(Floats floats, const std::uint16_t* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<Floats> ints;
  const hn::Rebind<std::uint16_t, Floats> words;
  return hn::ConvertTo(floats, hn::PromoteTo(ints, hn::LoadU(words, from)));
}
template <class Floats>
HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> load_sums(Floats floats, const std::uint32_t* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<Floats> ints;
  return hn::ConvertTo(floats, hn::LoadU(ints, reinterpret_cast<const std::int32_t*>(from)));
}

// Calls find(sums) with those there are: wide ones, or 16 bits each.
template <class Scores, class Find>
HWY_INLINE std::size_t find_by_sums(const Scores& of, const Find& find) {
  return of.wide != nullptr ? find(of.wide) : find(of.sums);
}

// A bit for each lane that is not set in the mask, the first in the lowest.
template <class Lanes, class Mask>
HWY_INLINE std::uint32_t not_set(Lanes lanes, Mask mask) {
  namespace hn = hwy::HWY_NAMESPACE;
  static_assert(hn::MaxLanes(Lanes()) <= 16);
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(lanes, mask, bytes);
  return ~(std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8) &
         ((std::uint32_t{1} << hn::MaxLanes(lanes)) - 1);
}

// Writes `first` plus the lane for each bit that is set; returns how many they are.
template <class Place>
HWY_INLINE std::size_t write_places(std::uint32_t within, std::size_t first, Place* places) {
  std::size_t found = 0;
  for (; within != 0; within &= within - 1) {
    places[found++] =
        static_cast<Place>(first + static_cast<std::size_t>(std::countr_zero(within)));
  }
  return found;
}

// Which rows are near enough, of `Pieces` vectors that follow each other, at most 32 rows.
template <std::size_t Pieces>
class RowsWithin {
 public:
  template <class Lanes, class Mask>
  HWY_INLINE void set(Lanes lanes, std::size_t piece, Mask within) {
    namespace hn = hwy::HWY_NAMESPACE;
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(lanes, within, bytes);
    bits_ |= (std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8)
             << (piece * hn::MaxLanes(lanes));
  }

  // Says that no row is near enough and counts; where vectors are long nothing, since the branch
  // would be foreseen wrongly for every other group, and takes longer than what it spares.
  template <class Lanes>
  HWY_INLINE bool none(Lanes, std::uint32_t counts) const {
    return hwy::HWY_NAMESPACE::MaxLanes(Lanes()) < 16 && (bits_ & counts) == 0;
  }

  // Writes `first` plus the number of each row that is near enough and counts; returns how many
  // they are. There is room for all.
  template <class Lanes>
  HWY_INLINE std::size_t write(Lanes, std::uint32_t counts, std::size_t first,
                               std::uint8_t* places) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const std::uint32_t bits = bits_ & counts;
    if constexpr (hn::MaxLanes(Lanes()) < 16) {
      return write_places(bits, first, places);
    } else {
      const hn::RebindToUnsigned<Lanes> words;
      const hn::Rebind<std::uint8_t, Lanes> narrow;
      std::uint8_t* at = places;
      HWY_UNROLL(2)
      for (std::size_t p = 0; p < Pieces; ++p) {
        const auto piece = static_cast<std::uint16_t>(bits >> (p * 16));
        std::uint8_t bytes[8] = {};
        std::memcpy(bytes, &piece, sizeof piece);
        const auto start = hn::Set(words, static_cast<std::uint32_t>(first + p * 16));
        const auto rows = hn::Add(start, hn::Iota(words, 0));
        const auto near = hn::Compress(rows, hn::LoadMaskBits(words, bytes));
        hn::StoreU(hn::TruncateTo(narrow, near), narrow, at);
        at += std::popcount(piece);
      }
      return static_cast<std::size_t>(at - places);
    }
  }

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#endif

// Counters of the rows of a tile, by which searches of sparse vectors nominate (postings.h):
// sums of impacts times weights in whole units, rounded such that what a row's sum S of products may
// be is at most its counter and a margin. Impacts are rounded up where they add, down where they take
// off: one of q stands for all values up to q steps, and is one of q − 1 where it takes off. So rows
// whose counter is below a floor are ruled out.
// Threads: functions of their arguments, for hosts and devices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace warplite::compute {

// What all that adds can come to, in units; counters hold a little more.
inline constexpr double kMostSparseUnits = 32000;
// That a row is in. Beyond, rounding takes so much that most rows would be compared.
inline constexpr std::uint32_t kMostSparseLists = 512;
inline constexpr double kMostSparseMargin = 8000;
inline constexpr std::uint32_t kMostSparseImpact = 255;

struct SparseScale {
  double unit = 0;    // 0: nothing adds, so that no S is above 0
  double margin = 0;  // S is at most so many units above a counter,
  double spread = 0;  // and a counter at most so many above S

  // Says whether counters can tell rows apart.
  constexpr bool serves() const {
    return unit == 0 || (unit > std::numeric_limits<double>::min() && margin < kMostSparseMargin);
  }
  // Weights count in units of 1/256. `each`: what an impact of 1 adds to S, or takes off.
  constexpr std::uint16_t weight(double each, bool taken_off) const {
    constexpr double kMostWeight = 33000;  // 255/256 of it is what a counter holds
    const double exact = std::min(256 * each / unit, kMostWeight);
    const auto whole = static_cast<std::uint16_t>(exact);
    return static_cast<std::uint16_t>(!taken_off && whole < exact ? whole + 1 : whole);
  }
};

// `most`, `least`: what `added` lists can add to an S, and others of the `lists` take off. No row is in more than
// `widest` of them; the others add nothing to its counter, rounded or not.
constexpr SparseScale sparse_scale(double most, double least, std::uint32_t added,
                                   std::uint32_t lists, std::uint32_t widest) {
  SparseScale scale;
  added = std::min(added, widest);
  lists = std::min(lists, widest);
  if (most == 0) return scale;
  scale.unit = most / kMostSparseUnits;
  // Each product is rounded down; the sum S itself is rounded, too.
  const double rounding =
      lists * std::numeric_limits<double>::epsilon() * (most + least) / scale.unit;
  scale.margin = added + 2 + rounding;
  // A step for each list, since impacts are rounded by less than one.
  scale.spread = (most + least) / kMostSparseImpact / scale.unit + 2.0 * lists + rounding;
  // Counters do not fall without end.
  if (least > most) scale.spread = std::numeric_limits<double>::infinity();
  return scale;
}

}  // namespace warplite::compute

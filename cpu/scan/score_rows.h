// The canonical loops of every element type share this: the order in which rows are asked for ahead
// of their use, and the last step from sums to a distance.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <hwy/base.h>

#include "cpu/scan/scan_kernels.h"

namespace warplite::cpu {

// Memory is asked for in bursts of cache lines, ahead of its use.
constexpr std::size_t kBurst = 256;

// Inlined by force: a call to a function that only prefetches looks useless to GCC, which
// drops it (seen with GCC 12 and 13; one query then takes twice to three times as long).
HWY_INLINE void ask_for(const std::byte* from) {
  HWY_UNROLL(4)
  for (std::size_t at = 0; at < kBurst; at += 64) __builtin_prefetch(from + at);
}

// The row whose bytes are asked for while rows[i] is read, about kAheadBytes away: rows may be
// anywhere when they are filtered. If rows are long, it is a later part of the same row.
constexpr std::size_t kAheadBytes = 4096;
constexpr std::size_t kLongRow = 8192;

inline const std::byte* row_soon(std::size_t stride, const std::byte* base,
                                 const std::uint32_t* rows, std::size_t n, std::size_t i,
                                 std::size_t ahead) {
  if (stride >= kLongRow || i + ahead >= n) {
    return base + rows[i] * stride + kAheadBytes;
  }
  return base + rows[i + ahead] * stride;
}

inline std::size_t rows_ahead(std::size_t stride) {
  const std::size_t rows = kAheadBytes / stride;
  return rows > 1 ? rows : 1;
}

inline double cosine_of_sums(double dot, double xx, double yy) {
  if (xx == 0 || yy == 0) return 1;
  const double distance = 1 - dot / std::sqrt(xx * yy);
  return distance > 0 ? distance : 0;
}

inline double negate(double sum) { return sum == 0 ? 0 : -sum; }

// The score of l2 is its square, so the threshold is squared. The margin covers the
// rounding of the square and of the root: different scores may have the same root.
inline double score_limit(Distance distance, double threshold) {
  if (distance != Distance::kL2) return threshold;
  if (threshold < 0) return -1;
  return threshold * threshold * (1 + 0x1p-50) + std::numeric_limits<double>::denorm_min();
}

inline double distance_of_score(Distance distance, double score) {
  return distance == Distance::kL2 ? std::sqrt(score) : score;
}

}  // namespace warplite::cpu

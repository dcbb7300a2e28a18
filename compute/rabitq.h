// RaBitQ codes in inverted files (Gao and Long, SIGMOD 2024; several bits a dimension: SIGMOD 2025):
// what a row's code is, and every step of the arithmetic by which devices nominate the same rows.
// IvfShape::planes says how many bits B a dimension has, 1 to 8.
//
// Model space is that of ivf.h, rotated at random, so that no dimension is special. A row o of the
// list with centroid C is coded by r = o − C. Its code U_i, B bits of each dimension, has the sign of
// r_i as its highest bit, and the others such that ū_i = U_i − (2^B − 1)/2 points as nearly as can be
// where r does. With a query y and x = y − C, the estimate of r·x is (‖r‖² / ū·r)·(ū·x): over random
// rotations it is right on average. The signs alone, s_i = ±1, give one of their own, and with it comes
// an error that few rows exceed. So a row's score is, with D = ‖x‖² (ip: −y·C),
//   low   = [(D + bias) + f·(s·x)] − g·‖x‖      from the signs
//   score = max(low, (D + bias) + F·(ū·x))      from all planes; B = 1: (D + bias) + f·(s·x)
//   l2, cosine: bias = ‖r‖², f = −2‖r‖²/(s·r), F = −2‖r‖²/(ū·r)
//   ip:         bias = −C·r, f and F are half of these
//   g = kErrors·|f|·√(dim − (s·r)²/‖r‖²) / √(dim − 1)
// A row whose `low` is beyond what is wanted need not be looked at further, and nothing is lost by
// that, since its score is not less. All factors are 0 where r is.
//
// Arithmetic: float32, each operation rounded by itself, never fused.
//   Σ16: sixteen sums; term i is added to sum i mod 16, in order; then sum j takes sum j + h, for
//   h = 8, 4, 2, 1.
//   D = Σ16 (y_i − C_i)²; ip: −Σ16 y_i·C_i;  x_i = y_i − C_i;  ‖x‖ = √Σ16 x_i²
//   top = max |x_i|; unless kLeastTop <= top < ∞ all of w, v are 0, and `unit` and `fine` too
//   w_i = trunc(x_i·(31 / top) ± 0.5), with the sign of x_i;  v_i the same with 127
//   T[s][j] = 128 ± w_4s ± w_4s+1 ± w_4s+2 ± w_4s+3: + for element b where bit b of j is set
//   unit = top / 31;  fine = top / 254
//   s·x = unit·(float)(Σ_s T[s][code_s] − 128·m)
//   ū·x = 2^(B−2)·(s·x) + fine·(float)(2·Σ e_i·v_i − (2^(B−1) − 1)·Σ v_i)   few planes
//         fine·(float)(2·Σ U_i·v_i − (2^B − 1)·Σ v_i)                        signs_count_by_elements()
// e is U without its sign. What w_i leaves out is far less than the signs' error, and of some account
// where planes are many.
// A score that is NaN counts as +∞. Candidates are ordered by (score, ordinal).
//
// Lists probed: with groups == 0 the nprobe nearest centroids by (D, list). Else centroids are coded
// as rows are, by kCoarsePlanes planes, in groups that have centroids of their own, and the nprobe
// best by (score, list) are probed, which costs a small part of comparing all centroids. A D that is NaN
// counts as +∞. Lists of other inverted files are found so too (ivf.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplite::compute {

inline constexpr std::uint32_t kMostPlanes = 8;
inline constexpr std::uint32_t kCoarsePlanes = 4;
// From so many planes on the signs count by v: as many as make what w leaves out matter, which of four
// planes is 6 % of the spread of an estimate's error. Of four they do where codes decide alone
// (IvfWork::codes_decide), and a scan takes a tenth longer for it: 50,000 image descriptors, all
// lists, recall@10 0.930 -> 0.934.
constexpr bool signs_count_by_elements(std::uint32_t planes, bool codes_decide) {
  return planes >= (codes_decide ? 4 : 5);
}
inline constexpr float kLeastTop = 0x1p-100f;
// Of the spread of an estimate's error: one row in about eleven is farther off on this side. Gao and
// Long (§3.2.2) take 1.9 where this bound alone decides; here a row beyond it only falls behind others.
// 300,000 x 128 hard rows, 4,096 lists: recall@10 at nprobe 64, 128 and 256 is 0.823, 0.910 and 0.966
// with 1.9, 0.821, 0.908 and 0.963 with this, in 12 to 16 % less time.
inline constexpr double kErrors = 1.33;
inline constexpr std::uint32_t kRabitqDims = 4;  // of a look-up table

// Bytes of one plane of a row: a bit a dimension, the first in the lowest bit; zeros behind the last.
constexpr std::uint32_t plane_bytes(std::uint32_t dim) { return (dim + 7) / 8; }

// Where a run has the codes of kFastScanRows positions: the signs as 4-bit codes of ⌈dim / 4⌉
// sub-spaces, then bias, f and g of each as bfloat16, by which `low` is defined (of one plane: the
// score). The rows of several lists may share a group, and some of its positions may be no list's:
// their bias is +∞.
struct RabitqGroup {
  static constexpr std::uint32_t kRows = 32;
  std::uint32_t bias, f, g, size;

  explicit constexpr RabitqGroup(std::uint32_t sub_spaces)
      : bias(sub_spaces * 16), f(bias + 2 * kRows), g(f + 2 * kRows), size(g + 2 * kRows) {}

  // The positions begin … end − 1 of a list are in the groups from first_of(begin) on, before
  // end_of(end); in one of these, rows_of() has a bit for each row of the list.
  static constexpr std::uint32_t first_of(std::uint32_t begin) { return begin / kRows; }
  static constexpr std::uint32_t end_of(std::uint32_t end) { return (end + kRows - 1) / kRows; }
  static constexpr std::uint32_t rows_of(std::uint32_t begin, std::uint32_t end,
                                         std::uint32_t group) {
    const std::uint32_t first = group * kRows;
    const std::uint32_t from =
        begin > first ? ~std::uint32_t{0} << (begin - first) : ~std::uint32_t{0};
    const std::uint32_t behind = end - first < kRows ? ~std::uint32_t{0} << (end - first) : 0;
    return from & ~behind;
  }
};

// Where a run has the rest of a position, of more than one plane: F and bias as float32, and the
// planes after the signs, the highest first. Records follow each other on four bytes, so that one
// may lie in two lines of the cache.
struct RabitqRecord {
  static constexpr std::uint32_t kFine = 0, kBias = 4, kPlanes = 8;

  static constexpr std::uint32_t size(std::uint32_t dim, std::uint32_t planes) {
    return planes < 2 ? 0 : (kPlanes + (planes - 1) * plane_bytes(dim) + 3) / 4 * 4;
  }
};
// Reading a plane may go so far beyond it.
inline constexpr std::size_t kPlaneSlack = 64;

}  // namespace warplite::compute

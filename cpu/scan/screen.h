// A few queries over rows of real elements: float32 sums, half the work of canonical ones,
// drop the rows that cannot be within the query's threshold T; the others are scored
// canonically, so that results are exact.
//
// Why nothing is missed. u = 2^-24, γ = m·u / (1 − m·u) with m = dim + 8: what `dim` operations
// in any order, fused or not, may be off by. Elements are float32 exactly. A row that the
// canonical double says is within T is so in real numbers but for a factor 1 + 2^-36.
//   l2: every term is positive, so errors are relative, but for underflow, where an element of
//       the difference is off by at most 2^-124 (denormals may be flushed):
//       sum' ≤ (1 + γ)((1 + u)T + √dim·2^-124)² + dim·2^-126
//   l1: sum' ≤ (1 + γ)((1 + u)T + dim·2^-124) + dim·2^-126
//   ip: dot' ≥ dot − γ‖x‖‖y‖ − √dim·2^-126(‖x‖ + ‖y‖) − dim·2^-126, and the row's norm is
//       ‖y‖ ≤ (1 + γ)‖y‖' + √dim·2^-62; dropped only if dot' + slack·‖y‖' < −T − floor
//   cosine: with both norms in [2^-40, 2^40] underflow is below u, so dot'/(‖x‖‖y‖') is off by at
//       most 2γ + 8u; other rows are kept.
// The eight operations beyond dim cover the test's own roundings. Where a sum overflows to
// infinity or NaN: l2 and l1 have an infinite limit unless T is small enough to prove the
// row too far; ip has NaN or −infinity, which are kept; cosine keeps by the norm.
//
// Threads: constant once made.
#pragma once

#include <vector>

#include "compute/ops.h"
#include "core/bytes.h"
#include "cpu/scan/scan_kernels.h"

namespace warplite::cpu {

class Screen {
 public:
  static constexpr float kSmallestSquare = 0x1p-80f;  // of a norm in range
  static constexpr float kLargestSquare = 0x1p80f;

  // Says whether the workload's rows can be, and are worth being, screened.
  static bool suits(const compute::Workload& work, const ScanKernels& kernels);

  // Throws std::bad_alloc.
  Screen(const compute::Workload& work, const ScanKernels& kernels);

  // Writes those of rows[0..n) that may be within `threshold` to `kept`; returns their number.
  // `lows` has room for n.
  std::size_t keep(std::size_t query, double threshold, const std::byte* base,
                   const std::uint32_t* rows, std::size_t n, float* lows,
                   std::uint32_t* kept) const;

 private:
  struct Query {
    ScreenQuery form;
    double norm = 0;     // ‖x‖, rounded up
    bool usable = true;  // its norm is in range
  };

  // Returns what a row's `low` must not exceed; infinity keeps every row.
  float limit(const Query& query, double threshold) const;

  Distance distance_;
  ScreenRows screen_;
  double dim_, gamma_;
  Bytes floats_;
  std::vector<Query> queries_;
};

}  // namespace warplite::cpu

// The definition of every distance that leaves Warplite.
//
// Canonical arithmetic. For FLOAT and FLOAT16 (converted exactly to float): sixteen
// float64 accumulators; element i goes to accumulator i mod 16 in increasing i.
// With t = (double)x − (double)y: a += t·t for l2, a += |t| for l1; a += x·y for ip
// and for the three sums of cosine. Every operation is rounded separately, never
// fused. Then a[j] += a[j+s] for s = 8, 4, 2, 1; the result is a[0].
//   l2 = √S   ip = −S, −0 made 0   l1 = S
//   cosine = max(0, 1 − dot/√(xx·yy)); 1 when xx or yy is 0. For finite input this is never NaN.
// INT8 sums are integers, converted to double once. BIT counts bits: hamming those that differ; jaccard
// divides them, in double, by those that either vector has: 1 − |x∧y|/|x∨y|, rounded once.
#pragma once

#include "compute/ops.h"

namespace warplite::compute {

// Distance of two vectors of `dim` elements.
double canonical_distance(Distance distance, ElementType type, std::uint32_t dim,
                          const std::byte* x, const std::byte* y);

}  // namespace warplite::compute

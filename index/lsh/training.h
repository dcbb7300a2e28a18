// Widths of the families of lsh_options.h, from a sample, where nobody gave them. At most 1,000
// rows of it are compared, all pairs of them.
//   sigma  of rbh: the mean L1 distance of two rows (papers/genie-2018 §VI-D1), so that two that
//          are that far apart agree in one function of e
//   width  of e2lsh: 1.6 times the mean distance of a row's nearest. How much a match count tells
//          of the distance Δ, (dψ/dlnΔ)² / (ψ(1 − ψ)) with ψ(Δ) of Eqn. 11, is greatest at
//          Δ = width / 1.64 with l2 and width / 1.68 with l1. The paper leaves it at "a trade-off
//          between time and accuracy": wider buckets make longer lists. 50,000 × 128 SIFT
//          descriptors, 100 queries, 237 functions; recall@10 of 80 candidates, their approximation
//          ratio (Eqn. 13), and the part of all rows × functions that match:
//            times   0.5     1.0     1.6     2.5     3.5     5.0
//            recall  0.542   0.733   0.798   0.806   0.720   0.601
//            ratio   1.031   1.011   1.007   1.007   1.012   1.023
//            match   0.12    0.23    0.35    0.51    0.63    0.73
#pragma once

#include "core/distance.h"
#include "index/clustering/kmeans.h"
#include "index/lsh/options.h"

namespace warplite::index {

// Rows of a sample that are of use.
inline constexpr std::size_t kLshSampleRows = 1000;

// The width of e2lsh or the sigma of rbh; 1 for simhash, which has none, or when the rows are all
// the same. What is given counts. Throws Error{kInvalid} when it takes a sample and that has fewer
// than two rows. Distances are summed in double, in a fixed order, whatever the threads.
double lsh_scale(const LshOptions& options, Distance distance, const SampleView& sample);

}  // namespace warplite::index

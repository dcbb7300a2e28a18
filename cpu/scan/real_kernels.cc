// The canonical arithmetic of real elements (compute/reference.h) on vectors: accumulator i mod 16 is
// a lane, so every width computes the same sums in the same order. No multiplication
// and addition may be fused here.
#include <cstring>

#include "cpu/runtime/highway_config.h"
#include "cpu/scan/scan_kernels.h"
#include "cpu/scan/score_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/scan/real_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/runtime/simd_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kAccumulators = 16;
using Doubles = hn::CappedTag<double, kAccumulators>;
constexpr Doubles kDoubles;
constexpr std::size_t kLanes = hn::MaxLanes(kDoubles);
constexpr std::size_t kVectors = kAccumulators / kLanes;
using DoubleVector = hn::VFromD<Doubles>;
using FloatTag = hn::Rebind<float, Doubles>;

// Sixteen elements as doubles.
template <class Element>
HWY_INLINE void load_sixteen(const std::byte* from, DoubleVector* to) {
#if HWY_TARGET == HWY_AVX2
  // Eight narrow ones at a time: half as many conversions as by FloatTag.
  if constexpr (Element::kBytes < 4) {
    const hn::FixedTag<float, 8> floats;
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kVectors; v += 2) {
      const auto eight = Element::load_floats(floats, from + v * kLanes * Element::kBytes);
      to[v] = hn::PromoteTo(kDoubles, hn::LowerHalf(FloatTag(), eight));
      to[v + 1] = hn::PromoteTo(kDoubles, hn::UpperHalf(FloatTag(), eight));
    }
    return;
  }
#endif
  HWY_UNROLL(16)
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::byte* at = from + v * kLanes * Element::kBytes;
    to[v] = hn::PromoteTo(kDoubles, Element::load_floats(FloatTag(), at));
  }
}

// The first n of them, and zeros.
template <class Element>
HWY_INLINE void load_first_of_sixteen(const std::byte* from, std::size_t n, DoubleVector* to) {
  HWY_UNROLL(16)
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::size_t before = v * kLanes;
    to[v] = n <= before ? hn::Zero(kDoubles)
                        : hn::PromoteTo(kDoubles, Element::load_first_floats(
                                                      FloatTag(), from + before * Element::kBytes,
                                                      n - before));
  }
}

struct SquaredDifference {
  static HWY_INLINE DoubleVector of(DoubleVector x, DoubleVector y) {
    const DoubleVector t = hn::Sub(x, y);
    return hn::Mul(t, t);
  }
};
struct AbsoluteDifference {
  static HWY_INLINE DoubleVector of(DoubleVector x, DoubleVector y) {
    return hn::Abs(hn::Sub(x, y));
  }
};
struct Product {
  static HWY_INLINE DoubleVector of(DoubleVector x, DoubleVector y) { return hn::Mul(x, y); }
};
struct RowSquare {
  static HWY_INLINE DoubleVector of(DoubleVector, DoubleVector y) { return hn::Mul(y, y); }
};

// a[j] += a[j + s] for s = half the lanes, … 2, 1.
template <class Tag>
HWY_INLINE double fold([[maybe_unused]] Tag tag, hn::VFromD<Tag> a) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(tag) > 1) {
    const hn::Half<Tag> half;
    return fold(half, hn::Add(hn::LowerHalf(half, a), hn::UpperHalf(half, a)));
  }
#endif
  return hn::GetLane(a);
}

// Sixteen accumulators; add() takes one vector of terms.
class Sum {
 public:
  HWY_INLINE Sum() {
    HWY_UNROLL(16)
    for (std::size_t v = 0; v < kVectors; ++v) lanes_[v] = hn::Zero(kDoubles);
  }
  HWY_INLINE void add(std::size_t v, DoubleVector term) { lanes_[v] = hn::Add(lanes_[v], term); }
  HWY_INLINE double total() {
    HWY_UNROLL(16)
    for (std::size_t s = kVectors / 2; s > 0; s /= 2) {
      HWY_UNROLL(16)
      for (std::size_t v = 0; v < s; ++v) lanes_[v] = hn::Add(lanes_[v], lanes_[v + s]);
    }
    return fold(kDoubles, lanes_[0]);
  }

 private:
  DoubleVector lanes_[kVectors];
};

// Adds the terms of sixteen elements of one row to its sums, one per Term.
template <class... Terms>
HWY_INLINE void add_sixteen(const double* query, const DoubleVector* elements, Sum* sums) {
  HWY_UNROLL(16)
  for (std::size_t v = 0; v < kVectors; ++v) {
    const DoubleVector x = hn::LoadU(kDoubles, query + v * kLanes), y = elements[v];
    std::size_t term = 0;
    (sums[term++].add(v, Terms::of(x, y)), ...);
  }
}

// The sums of one row, one per Term. One row at a time: its four or more chains of
// additions keep the units busy, and memory is read as a single stream, which is
// measured twice as fast as two. A partial last group is padded with zeros, which add
// nothing. `soon` is the row to be read later.
template <class Element, class... Terms>
HWY_INLINE void sum_row(const PreparedQuery& query, const std::byte* row, const std::byte* soon,
                        double* out) {
  constexpr std::size_t kTerms = sizeof...(Terms);
  Sum sums[kTerms];
  DoubleVector elements[kVectors];
  const std::size_t whole = query.dim / kAccumulators * kAccumulators;
  for (std::size_t i = 0; i < whole; i += kAccumulators) {
    if (i * Element::kBytes % kBurst == 0) ask_for(soon + i * Element::kBytes);
    load_sixteen<Element>(row + i * Element::kBytes, elements);
    add_sixteen<Terms...>(query.reals + i, elements, sums);
  }
  if (whole != query.dim) {
    load_first_of_sixteen<Element>(row + whole * Element::kBytes, query.dim - whole, elements);
    add_sixteen<Terms...>(query.reals + whole, elements, sums);
  }
  for (std::size_t t = 0; t < kTerms; ++t) out[t] = sums[t].total();
}

struct SameScore {
  static HWY_INLINE double of(const PreparedQuery&, const double* sums) { return sums[0]; }
};
struct NegatedScore {
  static HWY_INLINE double of(const PreparedQuery&, const double* sums) { return negate(sums[0]); }
};
struct CosineScore {
  static HWY_INLINE double of(const PreparedQuery& query, const double* sums) {
    return cosine_of_sums(sums[0], query.norm, sums[1]);
  }
};

template <class Score, class Element, class... Terms>
void score_real(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                std::size_t n, double* scores) {
  const std::size_t ahead = rows_ahead(query.stride);
  for (std::size_t i = 0; i < n; ++i) {
    double sums[sizeof...(Terms)];
    sum_row<Element, Terms...>(query, base + rows[i] * query.stride,
                               row_soon(query.stride, base, rows, n, i, ahead), sums);
    scores[i] = Score::of(query, sums);
  }
}

// The loop of each distance of numbers.
template <Distance kDistance>
struct Scorer;
template <>
struct Scorer<Distance::kL2> {
  template <class Element>
  static constexpr ScoreRows rows = score_real<SameScore, Element, SquaredDifference>;
};
template <>
struct Scorer<Distance::kL1> {
  template <class Element>
  static constexpr ScoreRows rows = score_real<SameScore, Element, AbsoluteDifference>;
};
template <>
struct Scorer<Distance::kInnerProduct> {
  template <class Element>
  static constexpr ScoreRows rows = score_real<NegatedScore, Element, Product>;
};
template <>
struct Scorer<Distance::kCosine> {
  template <class Element>
  static constexpr ScoreRows rows = score_real<CosineScore, Element, Product, RowSquare>;
};

}  // namespace

void fill_all_real(ScanKernels& kernels) {
  for_each_element_type([&]<ElementType kType>() {
    if constexpr (is_real(kType)) {
      for_each_distance<kType>([&]<Distance kDistance>() {
        kernels.scores[static_cast<int>(kType)][static_cast<int>(kDistance)] =
            Scorer<kDistance>::template rows<Elements<kType>>;
      });
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

TargetFills<ScanKernels> real_fills() { return WARPLITE_EACH_TARGET(fill_all_real); }

}  // namespace warplite::cpu
#endif

// The canonical arithmetic (compute/reference.h) on vectors: accumulator i mod 16 is
// a lane, so every width computes the same sums in the same order. No multiplication
// and addition may be fused here.
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "cpu/highway_config.h"
#include "cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/canonical_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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

// Rows need no alignment; the one-lane target dereferences its pointer.
template <class Tag>
HWY_INLINE hn::VFromD<Tag> load(Tag tag, const std::byte* from) {
  using T = hn::TFromD<Tag>;
#if HWY_TARGET == HWY_SCALAR
  T value;
  std::memcpy(&value, from, sizeof value);
  return hn::Set(tag, value);
#else
  return hn::LoadU(tag, reinterpret_cast<const T*>(from));
#endif
}

struct Float32 {
  static constexpr std::size_t kBytes = 4;
  static HWY_INLINE DoubleVector at(const std::byte* from) {
    return hn::PromoteTo(kDoubles, load(FloatTag(), from));
  }
};

struct Float16 {
  static constexpr std::size_t kBytes = 2;
  static HWY_INLINE DoubleVector at(const std::byte* from) {
    const hn::Rebind<hwy::float16_t, Doubles> tag;
    return hn::PromoteTo(kDoubles, hn::PromoteTo(FloatTag(), load(tag, from)));
  }
};

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
    HWY_ALIGN double a[kLanes];
    hn::Store(lanes_[0], kDoubles, a);
    HWY_UNROLL(16)
    for (std::size_t s = kLanes / 2; s > 0; s /= 2) {
      HWY_UNROLL(16)
      for (std::size_t j = 0; j < s; ++j) a[j] += a[j + s];
    }
    return a[0];
  }

 private:
  DoubleVector lanes_[kVectors];
};

// Adds the terms of sixteen elements of one row to its sums, one per Term.
template <class Element, class... Terms>
HWY_INLINE void add_sixteen(const double* query, const std::byte* row, Sum* sums) {
  HWY_UNROLL(16)
  for (std::size_t v = 0; v < kVectors; ++v) {
    const DoubleVector x = hn::LoadU(kDoubles, query + v * kLanes);
    const DoubleVector y = Element::at(row + v * kLanes * Element::kBytes);
    std::size_t term = 0;
    (sums[term++].add(v, Terms::of(x, y)), ...);
  }
}

// Sums of kRows rows at once: their chains of additions overlap and share the query's
// loads. A partial last group is padded with zeros, which add nothing.
template <class Element, std::size_t kRows, class... Terms>
HWY_INLINE void sum_rows(const PreparedQuery& query, const std::byte* const* rows, double* out) {
  constexpr std::size_t kTerms = sizeof...(Terms);
  Sum sums[kRows][kTerms];
  const std::size_t whole = query.dim / kAccumulators * kAccumulators;
  for (std::size_t i = 0; i < whole; i += kAccumulators) {
    HWY_UNROLL(4)
    for (std::size_t r = 0; r < kRows; ++r) {
      add_sixteen<Element, Terms...>(query.reals + i, rows[r] + i * Element::kBytes, sums[r]);
    }
  }
  if (whole != query.dim) {
    for (std::size_t r = 0; r < kRows; ++r) {
      std::byte padded[kAccumulators * Element::kBytes] = {};
      std::memcpy(padded, rows[r] + whole * Element::kBytes,
                  (query.dim - whole) * Element::kBytes);
      add_sixteen<Element, Terms...>(query.reals + whole, padded, sums[r]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t t = 0; t < kTerms; ++t) out[r * kTerms + t] = sums[r][t].total();
  }
}

double cosine_of_sums(double dot, double xx, double yy) {
  if (xx == 0 || yy == 0) return 1;
  const double distance = 1 - dot / std::sqrt(xx * yy);
  return distance > 0 ? distance : 0;
}

double negate(double sum) { return sum == 0 ? 0 : -sum; }

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

// How far ahead the next rows are asked for: they may be anywhere when rows are filtered.
constexpr std::size_t kAhead = 4;

HWY_INLINE void prefetch_row(const std::byte* row, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes && at < 512; at += 64) {
    __builtin_prefetch(row + at, 0, 3);
  }
}

template <class Score, class Element, std::size_t kRows, class... Terms>
void score_real(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                std::size_t n, double* scores) {
  constexpr std::size_t kTerms = sizeof...(Terms);
  std::size_t i = 0;
  double sums[kRows * kTerms];
  for (; i + kRows <= n; i += kRows) {
    const std::byte* at[kRows];
    for (std::size_t r = 0; r < kRows; ++r) at[r] = base + rows[i + r] * query.stride;
    for (std::size_t r = i + kAhead; r < i + kAhead + kRows && r < n; ++r) {
      prefetch_row(base + rows[r] * query.stride, query.stride);
    }
    sum_rows<Element, kRows, Terms...>(query, at, sums);
    for (std::size_t r = 0; r < kRows; ++r) scores[i + r] = Score::of(query, sums + r * kTerms);
  }
  for (; i < n; ++i) {
    const std::byte* at = base + rows[i] * query.stride;
    sum_rows<Element, 1, Terms...>(query, &at, sums);
    scores[i] = Score::of(query, sums);
  }
}

// Integer sums. A partial sum of 32 bits holds kChunk elements without overflow: a
// lane of 4 or more takes at most kChunk/4 terms of 255² (one lane: its own bound).
struct Int8Sums {
  std::int64_t l2 = 0, l1 = 0, dot = 0, yy = 0;
};

#if HWY_TARGET == HWY_SCALAR
template <Distance kDistance>
void add_int8(const std::byte* x, const std::byte* y, std::size_t n, Int8Sums& sums) {
  std::int32_t l2 = 0, l1 = 0, dot = 0, yy = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t a = static_cast<std::int8_t>(x[i]), b = static_cast<std::int8_t>(y[i]);
    if constexpr (kDistance == Distance::kL2) l2 += (a - b) * (a - b);
    if constexpr (kDistance == Distance::kL1) l1 += std::abs(a - b);
    if constexpr (kDistance != Distance::kL2 && kDistance != Distance::kL1) dot += a * b;
    if constexpr (kDistance == Distance::kCosine) yy += b * b;
  }
  sums.l2 += l2;
  sums.l1 += l1;
  sums.dot += dot;
  sums.yy += yy;
}
constexpr std::size_t kChunk = 16384;
#else
constexpr std::size_t kChunk = 65536;
using Shorts = hn::ScalableTag<std::int16_t>;
using Ints = hn::RepartitionToWide<Shorts>;
using ShortVector = hn::VFromD<Shorts>;
using IntVector = hn::VFromD<Ints>;

// Sums products of pairs into 32-bit lanes.
class IntSum {
 public:
  HWY_INLINE IntSum() : low_(hn::Zero(Ints())), high_(hn::Zero(Ints())) {}
  HWY_INLINE void add(ShortVector a, ShortVector b) {
    low_ = hn::ReorderWidenMulAccumulate(Ints(), a, b, low_, high_);
  }
  HWY_INLINE std::int64_t total() const {
    HWY_ALIGN std::int32_t lanes[hn::MaxLanes(Ints())];
    hn::Store(hn::Add(low_, high_), Ints(), lanes);
    std::int64_t sum = 0;
    for (std::int32_t lane : lanes) sum += lane;
    return sum;
  }

 private:
  IntVector low_, high_;
};

template <Distance kDistance>
struct Int8Lanes {
  IntSum first, second;
  HWY_INLINE Int8Lanes() : first(), second() {}  // implicit ones are compiled for the baseline
  HWY_INLINE void add(const std::byte* x, const std::byte* y) {
    const hn::Rebind<std::int8_t, Shorts> bytes;
    const ShortVector a = hn::PromoteTo(Shorts(), load(bytes, x));
    const ShortVector b = hn::PromoteTo(Shorts(), load(bytes, y));
    if constexpr (kDistance == Distance::kL2) {
      const ShortVector t = hn::Sub(a, b);
      first.add(t, t);
    } else if constexpr (kDistance == Distance::kL1) {
      first.add(hn::Abs(hn::Sub(a, b)), hn::Set(Shorts(), std::int16_t{1}));
    } else {
      first.add(a, b);
      if constexpr (kDistance == Distance::kCosine) second.add(b, b);
    }
  }
};

template <Distance kDistance>
HWY_INLINE void add_int8(const std::byte* x, const std::byte* y, std::size_t n, Int8Sums& sums) {
  constexpr std::size_t kStep = hn::MaxLanes(Shorts());
  Int8Lanes<kDistance> lanes;
  std::size_t i = 0;
  for (; i + kStep <= n; i += kStep) lanes.add(x + i, y + i);
  if (i < n) {
    std::byte a[kStep] = {}, b[kStep] = {};
    std::memcpy(a, x + i, n - i);
    std::memcpy(b, y + i, n - i);
    lanes.add(a, b);
  }
  const std::int64_t first = lanes.first.total();
  if constexpr (kDistance == Distance::kL2) sums.l2 += first;
  if constexpr (kDistance == Distance::kL1) sums.l1 += first;
  if constexpr (kDistance != Distance::kL2 && kDistance != Distance::kL1) sums.dot += first;
  if constexpr (kDistance == Distance::kCosine) sums.yy += lanes.second.total();
}
#endif

template <Distance kDistance>
void score_int8(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                std::size_t n, double* scores) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* row = base + rows[i] * query.stride;
    if (i + kAhead < n) prefetch_row(base + rows[i + kAhead] * query.stride, query.stride);
    Int8Sums sums;
    for (std::size_t at = 0; at < query.dim; at += kChunk) {
      const std::size_t count = query.dim - at < kChunk ? query.dim - at : kChunk;
      add_int8<kDistance>(query.bytes + at, row + at, count, sums);
    }
    switch (kDistance) {
      case Distance::kL2: scores[i] = static_cast<double>(sums.l2); break;
      case Distance::kL1: scores[i] = static_cast<double>(sums.l1); break;
      case Distance::kInnerProduct: scores[i] = negate(static_cast<double>(sums.dot)); break;
      default:
        scores[i] = cosine_of_sums(static_cast<double>(sums.dot), query.norm,
                                   static_cast<double>(sums.yy));
    }
  }
}

HWY_INLINE std::uint64_t differing_bits(const std::byte* x, const std::byte* y, std::size_t n) {
  std::uint64_t a = 0, b = 0;
  std::memcpy(&a, x, n);
  std::memcpy(&b, y, n);
  return static_cast<std::uint64_t>(__builtin_popcountll(a ^ b));
}

void score_bits(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                std::size_t n, double* scores) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* row = base + rows[i] * query.stride;
    std::uint64_t bits = 0;
    std::size_t at = 0;
    for (; at + 8 <= query.stride; at += 8) bits += differing_bits(query.bytes + at, row + at, 8);
    if (at < query.stride) {
      bits += differing_bits(query.bytes + at, row + at, query.stride - at);
    }
    scores[i] = static_cast<double>(bits);
  }
}

// Rows summed together: as many as their accumulators leave in registers.
constexpr std::size_t kTogether = kVectors <= 2 ? 4 : kVectors <= 4 ? 2 : 1;
constexpr std::size_t kTogetherCosine = kVectors <= 2 ? 2 : 1;

template <class Element>
void fill_real(ScoreRows* scores) {
  scores[static_cast<int>(Distance::kL2)] =
      score_real<SameScore, Element, kTogether, SquaredDifference>;
  scores[static_cast<int>(Distance::kL1)] =
      score_real<SameScore, Element, kTogether, AbsoluteDifference>;
  scores[static_cast<int>(Distance::kInnerProduct)] =
      score_real<NegatedScore, Element, kTogether, Product>;
  scores[static_cast<int>(Distance::kCosine)] =
      score_real<CosineScore, Element, kTogetherCosine, Product, RowSquare>;
}

}  // namespace

void fill_canonical(Kernels& kernels) {
  fill_real<Float32>(kernels.scores[static_cast<int>(ElementType::kFloat32)]);
  fill_real<Float16>(kernels.scores[static_cast<int>(ElementType::kFloat16)]);
  ScoreRows* int8 = kernels.scores[static_cast<int>(ElementType::kInt8)];
  int8[static_cast<int>(Distance::kL2)] = score_int8<Distance::kL2>;
  int8[static_cast<int>(Distance::kL1)] = score_int8<Distance::kL1>;
  int8[static_cast<int>(Distance::kInnerProduct)] = score_int8<Distance::kInnerProduct>;
  int8[static_cast<int>(Distance::kCosine)] = score_int8<Distance::kCosine>;
  kernels.scores[static_cast<int>(ElementType::kBit)][static_cast<int>(Distance::kHamming)] =
      score_bits;
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

TargetExports canonical_exports() {
  return {HWY_CHOOSE_AVX3(fill_canonical), HWY_CHOOSE_AVX2(fill_canonical),
          HWY_CHOOSE_SSE4(fill_canonical), HWY_CHOOSE_NEON(fill_canonical),
          HWY_CHOOSE_FALLBACK(fill_canonical)};
}

}  // namespace warplite::cpu
#endif

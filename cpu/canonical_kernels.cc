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

// Sixteen elements as doubles.
struct Float32 {
  static constexpr std::size_t kBytes = 4;
  static HWY_INLINE void load_sixteen(const std::byte* from, DoubleVector* to) {
    HWY_UNROLL(16)
    for (std::size_t v = 0; v < kVectors; ++v) {
      to[v] = hn::PromoteTo(kDoubles, load(FloatTag(), from + v * kLanes * kBytes));
    }
  }
};

struct Float16 {
  static constexpr std::size_t kBytes = 2;
  static HWY_INLINE void load_sixteen(const std::byte* from, DoubleVector* to) {
#if HWY_TARGET == HWY_AVX2
    // Eight at a time: half as many conversions as by FloatTag.
    const hn::FixedTag<float, 8> floats;
    const hn::FixedTag<hwy::float16_t, 8> halves;
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kVectors; v += 2) {
      const auto eight = hn::PromoteTo(floats, load(halves, from + v * kLanes * kBytes));
      to[v] = hn::PromoteTo(kDoubles, hn::LowerHalf(FloatTag(), eight));
      to[v + 1] = hn::PromoteTo(kDoubles, hn::UpperHalf(FloatTag(), eight));
    }
#else
    const hn::Rebind<hwy::float16_t, Doubles> halves;
    HWY_UNROLL(16)
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto floats = hn::PromoteTo(FloatTag(), load(halves, from + v * kLanes * kBytes));
      to[v] = hn::PromoteTo(kDoubles, floats);
    }
#endif
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
template <class Element, class... Terms>
HWY_INLINE void add_sixteen(const double* query, const std::byte* row, Sum* sums) {
  DoubleVector elements[kVectors];
  Element::load_sixteen(row, elements);
  HWY_UNROLL(16)
  for (std::size_t v = 0; v < kVectors; ++v) {
    const DoubleVector x = hn::LoadU(kDoubles, query + v * kLanes), y = elements[v];
    std::size_t term = 0;
    (sums[term++].add(v, Terms::of(x, y)), ...);
  }
}

// Memory is asked for in bursts of cache lines, ahead of its use.
constexpr std::size_t kBurst = 256;

HWY_INLINE void ask_for(const std::byte* from) {
  HWY_UNROLL(4)
  for (std::size_t at = 0; at < kBurst; at += 64) __builtin_prefetch(from + at);
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
  const std::size_t whole = query.dim / kAccumulators * kAccumulators;
  for (std::size_t i = 0; i < whole; i += kAccumulators) {
    if (i * Element::kBytes % kBurst == 0) ask_for(soon + i * Element::kBytes);
    add_sixteen<Element, Terms...>(query.reals + i, row + i * Element::kBytes, sums);
  }
  if (whole != query.dim) {
    std::byte padded[kAccumulators * Element::kBytes] = {};
    std::memcpy(padded, row + whole * Element::kBytes, (query.dim - whole) * Element::kBytes);
    add_sixteen<Element, Terms...>(query.reals + whole, padded, sums);
  }
  for (std::size_t t = 0; t < kTerms; ++t) out[t] = sums[t].total();
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

// The row whose bytes are asked for while rows[i] is read, about kAheadBytes away: rows
// may be anywhere when they are filtered. Of long rows, a later part of the same row.
constexpr std::size_t kAheadBytes = 4096;
constexpr std::size_t kLongRow = 8192;

HWY_INLINE const std::byte* row_soon(const PreparedQuery& query, const std::byte* base,
                                     const std::uint32_t* rows, std::size_t n, std::size_t i,
                                     std::size_t ahead) {
  if (query.stride >= kLongRow || i + ahead >= n) {
    return base + rows[i] * query.stride + kAheadBytes;
  }
  return base + rows[i + ahead] * query.stride;
}

HWY_INLINE std::size_t rows_ahead(std::size_t stride) {
  const std::size_t rows = kAheadBytes / stride;
  return rows > 1 ? rows : 1;
}

template <class Score, class Element, class... Terms>
void score_real(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                std::size_t n, double* scores) {
  const std::size_t ahead = rows_ahead(query.stride);
  for (std::size_t i = 0; i < n; ++i) {
    double sums[sizeof...(Terms)];
    sum_row<Element, Terms...>(query, base + rows[i] * query.stride,
                               row_soon(query, base, rows, n, i, ahead), sums);
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
void add_int8(const std::byte* x, const std::byte* y, const std::byte*, std::size_t n,
              Int8Sums& sums) {
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
HWY_INLINE void add_int8(const std::byte* x, const std::byte* y, const std::byte* soon,
                         std::size_t n, Int8Sums& sums) {
  constexpr std::size_t kStep = hn::MaxLanes(Shorts());
  Int8Lanes<kDistance> lanes;
  std::size_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    if (i % kBurst == 0) ask_for(soon + i);
    lanes.add(x + i, y + i);
  }
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
  const std::size_t ahead = rows_ahead(query.stride);
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* row = base + rows[i] * query.stride;
    const std::byte* soon = row_soon(query, base, rows, n, i, ahead);
    Int8Sums sums;
    for (std::size_t at = 0; at < query.dim; at += kChunk) {
      const std::size_t count = query.dim - at < kChunk ? query.dim - at : kChunk;
      add_int8<kDistance>(query.bytes + at, row + at, soon + at, count, sums);
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

void score_bits(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                std::size_t n, double* scores) {
  using Words = hn::ScalableTag<std::uint64_t>;
  constexpr Words kWords;
  constexpr std::size_t kStep = hn::MaxLanes(kWords) * sizeof(std::uint64_t);
  const std::size_t ahead = rows_ahead(query.stride);
  const std::size_t whole = query.stride / kStep * kStep, rest = query.stride - whole;
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* row = base + rows[i] * query.stride;
    const std::byte* soon = row_soon(query, base, rows, n, i, ahead);
    auto counts = hn::Zero(kWords);
    const auto add = [&](const std::byte* x, const std::byte* y) HWY_ATTR {
      counts = hn::Add(counts, hn::PopulationCount(hn::Xor(load(kWords, x), load(kWords, y))));
    };
    for (std::size_t at = 0; at < whole; at += kStep) {
      if (at % kBurst == 0) ask_for(soon + at);
      add(query.bytes + at, row + at);
    }
    if (rest != 0) {
      std::byte x[kStep] = {}, y[kStep] = {};
      std::memcpy(x, query.bytes + whole, rest);
      std::memcpy(y, row + whole, rest);
      add(x, y);
    }
    HWY_ALIGN std::uint64_t lanes[hn::MaxLanes(kWords)];
    hn::Store(counts, kWords, lanes);
    std::uint64_t bits = 0;
    for (const std::uint64_t lane : lanes) bits += lane;
    scores[i] = static_cast<double>(bits);
  }
}

template <class Element>
void fill_real(ScoreRows* scores) {
  scores[static_cast<int>(Distance::kL2)] =
      score_real<SameScore, Element, SquaredDifference>;
  scores[static_cast<int>(Distance::kL1)] =
      score_real<SameScore, Element, AbsoluteDifference>;
  scores[static_cast<int>(Distance::kInnerProduct)] =
      score_real<NegatedScore, Element, Product>;
  scores[static_cast<int>(Distance::kCosine)] =
      score_real<CosineScore, Element, Product, RowSquare>;
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

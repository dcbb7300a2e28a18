// The canonical arithmetic of INT8 and BIT vectors: integer sums, so order is free.
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cpu/runtime/highway_config.h"
#include "cpu/scan/scan_kernels.h"
#include "cpu/scan/score_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/scan/integer_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/runtime/simd_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A sum of 32 bits holds this many terms of 255².
constexpr std::size_t kChunk = 32768;

struct Int8Sums {
  std::int64_t l2 = 0, l1 = 0, dot = 0, yy = 0;
};

#if HWY_TARGET == HWY_SCALAR
template <Distance kDistance>
void add_int8(const std::int16_t* x, const std::byte* y, const std::byte*, std::size_t n,
              Int8Sums& sums) {
  std::int32_t l2 = 0, l1 = 0, dot = 0, yy = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t a = x[i], b = static_cast<std::int8_t>(y[i]);
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
#else
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
    return hn::GetLane(hn::SumOfLanes(Ints(), hn::Add(low_, high_)));
  }

 private:
  IntVector low_, high_;
};

template <Distance kDistance>
struct Int8Lanes {
  IntSum first, second;
  HWY_INLINE Int8Lanes() : first(), second() {}  // implicit ones are compiled for the baseline
  HWY_INLINE void add(const std::int16_t* x, const std::byte* y) {
    const hn::Rebind<std::int8_t, Shorts> bytes;
    const ShortVector a = hn::LoadU(Shorts(), x);
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
HWY_INLINE void add_int8(const std::int16_t* x, const std::byte* y, const std::byte* soon,
                         std::size_t n, Int8Sums& sums) {
  constexpr std::size_t kStep = hn::MaxLanes(Shorts());
  Int8Lanes<kDistance> lanes;
  std::size_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    if (i % kBurst == 0) ask_for(soon + i);
    lanes.add(x + i, y + i);
  }
  if (i < n) {
    std::byte padded[kStep] = {};
    std::memcpy(padded, y + i, n - i);
    lanes.add(x + i, padded);
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
    const std::byte* soon = row_soon(query.stride, base, rows, n, i, ahead);
    Int8Sums sums;
    for (std::size_t at = 0; at < query.dim; at += kChunk) {
      const std::size_t count = query.dim - at < kChunk ? query.dim - at : kChunk;
      add_int8<kDistance>(query.shorts + at, row + at, soon + at, count, sums);
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

// Rows of few words: setting up vectors would cost more than counting.
constexpr std::size_t kShortRow = 128;

template <std::size_t kWords>
void score_words(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                 std::size_t n, double* scores) {
  std::uint64_t words[kWords];
  std::memcpy(words, query.bytes, sizeof words);
  const std::size_t ahead = rows_ahead(sizeof words);
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* row = base + rows[i] * sizeof words;
    __builtin_prefetch(row_soon(sizeof words, base, rows, n, i, ahead));
    int bits = 0;
#pragma GCC unroll 16
    for (std::size_t w = 0; w < kWords; ++w) {
      std::uint64_t word;
      std::memcpy(&word, row + w * 8, sizeof word);
      bits += std::popcount(words[w] ^ word);
    }
    scores[i] = bits;
  }
}

// By the number of words, from one on.
template <std::size_t... kCounts>
ScoreRows words_scorer(std::size_t count, std::index_sequence<kCounts...>) {
  constexpr ScoreRows kScorers[] = {score_words<kCounts + 1>...};
  return kScorers[count - 1];
}

void score_bits(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                std::size_t n, double* scores) {
  if (query.stride <= kShortRow && query.stride % 8 == 0) {
    constexpr auto kCounts = std::make_index_sequence<kShortRow / 8>();
    return words_scorer(query.stride / 8, kCounts)(query, base, rows, n, scores);
  }
  using Words = hn::ScalableTag<std::uint64_t>;
  constexpr Words kWords;
  constexpr std::size_t kStep = hn::MaxLanes(kWords) * sizeof(std::uint64_t);
  const std::size_t ahead = rows_ahead(query.stride);
  const std::size_t whole = query.stride / kStep * kStep, rest = query.stride - whole;
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* row = base + rows[i] * query.stride;
    const std::byte* soon = row_soon(query.stride, base, rows, n, i, ahead);
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
    const std::uint64_t bits = hn::GetLane(hn::SumOfLanes(kWords, counts));
    scores[i] = static_cast<double>(bits);
  }
}

}  // namespace

void fill_integer(ScanKernels& kernels) {
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

TargetFills<ScanKernels> integer_fills() { return WARPLITE_EACH_TARGET(fill_integer); }

}  // namespace warplite::cpu
#endif

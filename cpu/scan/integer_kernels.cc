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

// Int8Terms say what a distance of INT8 vectors sums, one for each distance: `first` over pairs of
// elements, and squares of the row's where the distance divides by norms.
template <Distance kDistance>
struct Int8Terms;
template <>
struct Int8Terms<Distance::kL2> {
  static std::int32_t of(std::int32_t a, std::int32_t b) { return (a - b) * (a - b); }
  template <class Sum, class Vector>
  static HWY_INLINE void add(Sum& sum, Vector a, Vector b) {
    const Vector t = hn::Sub(a, b);
    sum.add(t, t);
  }
  static double score(const PreparedQuery&, double sum, double) { return sum; }
};
template <>
struct Int8Terms<Distance::kL1> {
  static std::int32_t of(std::int32_t a, std::int32_t b) { return std::abs(a - b); }
  template <class Sum, class Vector>
  static HWY_INLINE void add(Sum& sum, Vector a, Vector b) {
    sum.add(hn::Abs(hn::Sub(a, b)), hn::Set(hn::DFromV<Vector>(), std::int16_t{1}));
  }
  static double score(const PreparedQuery&, double sum, double) { return sum; }
};
template <>
struct Int8Terms<Distance::kInnerProduct> {
  static std::int32_t of(std::int32_t a, std::int32_t b) { return a * b; }
  template <class Sum, class Vector>
  static HWY_INLINE void add(Sum& sum, Vector a, Vector b) {
    sum.add(a, b);
  }
  static double score(const PreparedQuery&, double sum, double) { return negate(sum); }
};
template <>
struct Int8Terms<Distance::kCosine> : Int8Terms<Distance::kInnerProduct> {
  static double score(const PreparedQuery& query, double sum, double squares) {
    return cosine_of_sums(sum, query.norm, squares);
  }
};

struct Int8Sums {
  std::int64_t first = 0, squares = 0;
};

#if HWY_TARGET == HWY_SCALAR
template <Distance kDistance>
void add_int8(const std::int16_t* x, const std::byte* y, const std::byte*, std::size_t n,
              Int8Sums& sums) {
  std::int32_t first = 0, squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t a = x[i], b = static_cast<std::int8_t>(y[i]);
    first += Int8Terms<kDistance>::of(a, b);
    if constexpr (info(kDistance).norms) squares += b * b;
  }
  sums.first += first;
  sums.squares += squares;
}
#else
using Shorts = hn::ScalableTag<std::int16_t>;
using Ints = hn::RepartitionToWide<Shorts>;
using ByteTag = hn::Rebind<std::int8_t, Shorts>;
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
  IntSum first, squares;
  HWY_INLINE Int8Lanes() : first(), squares() {}  // implicit ones are compiled for the baseline
  HWY_INLINE void add(const std::int16_t* x, hn::VFromD<ByteTag> y) {
    const ShortVector a = hn::LoadU(Shorts(), x);
    const ShortVector b = hn::PromoteTo(Shorts(), y);
    Int8Terms<kDistance>::add(first, a, b);
    if constexpr (info(kDistance).norms) squares.add(b, b);
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
    lanes.add(x + i, load(ByteTag(), y + i));
  }
  if (i < n) lanes.add(x + i, load_first(ByteTag(), y + i, n - i));
  sums.first += lanes.first.total();
  if constexpr (info(kDistance).norms) sums.squares += lanes.squares.total();
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
    scores[i] = Int8Terms<kDistance>::score(query, static_cast<double>(sums.first),
                                            static_cast<double>(sums.squares));
  }
}

// BitTerms say what is counted of two vectors of bits, one for each distance: bits that differ and,
// if kUnion says so, bits that either has.
template <Distance kDistance>
struct BitTerms;
template <>
struct BitTerms<Distance::kHamming> {
  static constexpr bool kUnion = false;
  static double score(std::uint64_t differ, std::uint64_t) { return static_cast<double>(differ); }
};
template <>
struct BitTerms<Distance::kJaccard> {
  static constexpr bool kUnion = true;
  static double score(std::uint64_t differ, std::uint64_t either) {
    return either == 0 ? 0 : static_cast<double>(differ) / static_cast<double>(either);
  }
};

// Rows of few words: setting up vectors would cost more than counting.
constexpr std::size_t kShortRow = 128;

template <Distance kDistance, std::size_t kWords>
void score_words(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                 std::size_t n, double* scores) {
  std::uint64_t words[kWords];
  std::memcpy(words, query.bytes, sizeof words);
  const std::size_t ahead = rows_ahead(sizeof words);
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* row = base + rows[i] * sizeof words;
    __builtin_prefetch(row_soon(sizeof words, base, rows, n, i, ahead));
    int differ = 0, either = 0;
#pragma GCC unroll 16
    for (std::size_t w = 0; w < kWords; ++w) {
      std::uint64_t word;
      std::memcpy(&word, row + w * 8, sizeof word);
      differ += std::popcount(words[w] ^ word);
      if constexpr (BitTerms<kDistance>::kUnion) either += std::popcount(words[w] | word);
    }
    scores[i] = BitTerms<kDistance>::score(static_cast<std::uint64_t>(differ),
                                           static_cast<std::uint64_t>(either));
  }
}

// The last bytes of a vector of bits that make no whole word.
std::uint64_t last_word(const std::byte* vector, std::size_t bytes) {
  std::uint64_t word = 0;
  if (bytes >= sizeof word) {
    std::memcpy(&word, vector + bytes - sizeof word, sizeof word);
    return word >> (8 * (sizeof word - bytes % sizeof word));
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    word |= std::uint64_t{std::to_integer<unsigned>(vector[i])} << (8 * i);
  }
  return word;
}

// Counts the words from the given byte on, and what is left of one. `last`: last_word() of the query.
template <Distance kDistance>
void count_rest(const std::byte* query, std::uint64_t last, const std::byte* row, std::size_t from,
                std::size_t bytes, std::uint64_t& differ, std::uint64_t& either) {
  const auto add = [&](std::uint64_t a, std::uint64_t b) {
    differ += static_cast<unsigned>(std::popcount(a ^ b));
    if constexpr (BitTerms<kDistance>::kUnion) either += static_cast<unsigned>(std::popcount(a | b));
  };
  for (; from + 8 <= bytes; from += 8) {
    std::uint64_t a, b;
    std::memcpy(&a, query + from, sizeof a);
    std::memcpy(&b, row + from, sizeof b);
    add(a, b);
  }
  if (from != bytes) add(last, last_word(row, bytes));
}

// Returns the scorer of vectors of `count` words, from one word on.
template <Distance kDistance, std::size_t... kCounts>
ScoreRows words_scorer(std::size_t count, std::index_sequence<kCounts...>) {
  constexpr ScoreRows kScorers[] = {score_words<kDistance, kCounts + 1>...};
  return kScorers[count - 1];
}

template <Distance kDistance>
void score_bits(const PreparedQuery& query, const std::byte* base, const std::uint32_t* rows,
                std::size_t n, double* scores) {
  if (query.stride <= kShortRow && query.stride % 8 == 0) {
    constexpr auto kCounts = std::make_index_sequence<kShortRow / 8>();
    return words_scorer<kDistance>(query.stride / 8, kCounts)(query, base, rows, n, scores);
  }
  using Words = hn::ScalableTag<std::uint64_t>;
  constexpr Words kWords;
  constexpr std::size_t kStep = hn::MaxLanes(kWords) * sizeof(std::uint64_t);
  const std::size_t ahead = rows_ahead(query.stride);
  const std::size_t whole = query.stride <= kShortRow ? 0 : query.stride / kStep * kStep;
  const std::uint64_t last = query.stride % 8 == 0 ? 0 : last_word(query.bytes, query.stride);
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* row = base + rows[i] * query.stride;
    const std::byte* soon = row_soon(query.stride, base, rows, n, i, ahead);
    auto differ = hn::Zero(kWords), either = hn::Zero(kWords);
    const auto add = [&](hn::VFromD<Words> a, hn::VFromD<Words> b) HWY_ATTR {
      differ = hn::Add(differ, hn::PopulationCount(hn::Xor(a, b)));
      if constexpr (BitTerms<kDistance>::kUnion) {
        either = hn::Add(either, hn::PopulationCount(hn::Or(a, b)));
      }
    };
    for (std::size_t at = 0; at < whole; at += kStep) {
      if (at % kBurst == 0) ask_for(soon + at);
      add(load(kWords, query.bytes + at), load(kWords, row + at));
    }
    std::uint64_t differ_of_rest = 0, either_of_rest = 0;
    count_rest<kDistance>(query.bytes, last, row, whole, query.stride, differ_of_rest,
                          either_of_rest);
    scores[i] = BitTerms<kDistance>::score(
        differ_of_rest + hn::GetLane(hn::SumOfLanes(kWords, differ)),
        either_of_rest + hn::GetLane(hn::SumOfLanes(kWords, either)));
  }
}

}  // namespace

void fill_integer(ScanKernels& kernels) {
  ScoreRows* int8 = kernels.scores[static_cast<int>(ElementType::kInt8)];
  for_each_distance<ElementType::kInt8>([&]<Distance kDistance>() {
    int8[static_cast<int>(kDistance)] = score_int8<kDistance>;
  });
  ScoreRows* bits = kernels.scores[static_cast<int>(ElementType::kBit)];
  for_each_distance<ElementType::kBit>([&]<Distance kDistance>() {
    bits[static_cast<int>(kDistance)] = score_bits<kDistance>;
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

TargetFills<ScanKernels> integer_fills() { return WARPLITE_EACH_TARGET(fill_integer); }

}  // namespace warplite::cpu
#endif

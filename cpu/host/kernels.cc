// Lanes are columns of a product, functions of a panel, values of a filter: each has its own sum,
// in the order of the definitions.
#include "cpu/host/kernels.h"

#include <algorithm>
#include <bit>

#include "compute/host/lsh_hash.h"
#include "cpu/runtime/highway_config.h"
#include "cpu/scan/nearest_in_groups.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/host/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/runtime/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void fill_host(compute::HostKernels&) {}  // one lane: the definitions

#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using compute::HashPanel;


// So many rows at once hide how long an addition takes, and registers hold their sums.
constexpr std::size_t kRows = kLanes > 4 ? 6 : 4;

void add_block(const float* HWY_RESTRICT a, std::size_t depth, const float* HWY_RESTRICT panel,
               float* HWY_RESTRICT out, std::size_t leading) {
  FloatVector sums[kRows][2];
  HWY_UNROLL(6)
  for (std::size_t r = 0; r < kRows; ++r) {
    sums[r][0] = hn::LoadU(kFloats, out + r * leading);
    sums[r][1] = hn::LoadU(kFloats, out + r * leading + kLanes);
  }
  for (std::size_t d = 0; d < depth; ++d, panel += 2 * kLanes) {
    const FloatVector b0 = hn::LoadU(kFloats, panel), b1 = hn::LoadU(kFloats, panel + kLanes);
    HWY_UNROLL(6)
    for (std::size_t r = 0; r < kRows; ++r) {
      const FloatVector x = hn::Set(kFloats, a[r * depth + d]);
      sums[r][0] = hn::Add(sums[r][0], hn::Mul(x, b0));
      sums[r][1] = hn::Add(sums[r][1], hn::Mul(x, b1));
    }
  }
  HWY_UNROLL(6)
  for (std::size_t r = 0; r < kRows; ++r) {
    hn::StoreU(sums[r][0], kFloats, out + r * leading);
    hn::StoreU(sums[r][1], kFloats, out + r * leading + kLanes);
  }
}

void add_row(const float* HWY_RESTRICT a, std::size_t depth, const float* HWY_RESTRICT b,
             std::size_t columns, float* HWY_RESTRICT out) {
  for (std::size_t d = 0; d < depth; ++d, b += columns) {
    const FloatVector x = hn::Set(kFloats, a[d]);
    std::size_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      const FloatVector product = hn::Mul(x, hn::LoadU(kFloats, b + c));
      hn::StoreU(hn::Add(hn::LoadU(kFloats, out + c), product), kFloats, out + c);
    }
    for (; c < columns; ++c) out[c] += a[d] * b[c];
  }
}

using Doubles = hn::CappedTag<double, HashPanel::kFunctions>;
constexpr Doubles kDoubles;
using DoubleVector = hn::VFromD<Doubles>;
constexpr std::size_t kDoubleLanes = hn::MaxLanes(kDoubles);
constexpr std::size_t kDoubleVectors = HashPanel::kFunctions / kDoubleLanes;

using Words = hn::CappedTag<std::uint32_t, HashPanel::kFunctions>;
constexpr Words kWords;
using WordVector = hn::VFromD<Words>;
constexpr std::size_t kWordLanes = hn::MaxLanes(kWords);
constexpr std::size_t kWordVectors = HashPanel::kFunctions / kWordLanes;

// The low and the high halves of numbers.
#if HWY_TARGET == HWY_AVX3
HWY_INLINE WordVector low_words(const DoubleVector* values) {
  return hn::TruncateTo(kWords, hn::BitCast(hn::RebindToUnsigned<Doubles>(), values[0]));
}
HWY_INLINE WordVector high_words(const DoubleVector* values) {
  const auto bits = hn::BitCast(hn::RebindToUnsigned<Doubles>(), values[0]);
  return hn::TruncateTo(kWords, hn::ShiftRight<32>(bits));
}
#else
HWY_INLINE WordVector low_words(const DoubleVector* values) {
  return hn::ConcatEven(kWords, hn::BitCast(kWords, values[1]), hn::BitCast(kWords, values[0]));
}
HWY_INLINE WordVector high_words(const DoubleVector* values) {
  return hn::ConcatOdd(kWords, hn::BitCast(kWords, values[1]), hn::BitCast(kWords, values[0]));
}
#endif
constexpr std::size_t kPerWords = kWordLanes / kDoubleLanes;  // vectors that one of words is of

HWY_INLINE WordVector murmur3_add(WordVector state, WordVector word) {
  word = hn::RotateRight<32 - 15>(hn::Mul(word, hn::Set(kWords, compute::kMurmurFirst)));
  word = hn::Mul(word, hn::Set(kWords, compute::kMurmurSecond));
  state = hn::RotateRight<32 - 13>(hn::Xor(state, word));
  const WordVector five = hn::Add(state, hn::ShiftLeft<2>(state));
  return hn::Add(five, hn::Set(kWords, compute::kMurmurSum));
}

HWY_INLINE DoubleVector load_doubles(const float* from) {
  return hn::PromoteTo(kDoubles, hn::LoadU(hn::Rebind<float, Doubles>(), from));
}

HWY_INLINE void put(const WordVector* states, std::uint32_t bytes, const HashPanel& panel,
                    std::uint32_t* out) {
  HWY_ALIGN std::uint32_t words[HashPanel::kFunctions];
  for (std::size_t v = 0; v < kWordVectors; ++v) {
    hn::StoreU(states[v], kWords, words + v * kWordLanes);
  }
  for (std::size_t i = 0; i < panel.functions; ++i) {
    out[i] = compute::bucket_of(compute::murmur3_finish(words[i], bytes), panel.buckets);
  }
}

// Rows that the numbers of a panel are read for.
template <std::size_t kTogether>
struct Cells {
  static HWY_INLINE void hash(const HashPanel& panel, const double* rows, std::uint32_t* out) {
    WordVector states[kTogether][kWordVectors];
    for (std::size_t r = 0; r < kTogether; ++r) {
      for (std::size_t v = 0; v < kWordVectors; ++v) {
        states[r][v] =
            hn::Iota(kWords, panel.first + static_cast<std::uint32_t>(v * kWordLanes));
      }
    }
    const DoubleVector to_whole = hn::Set(kDoubles, compute::kToWhole);
    for (std::size_t d = 0; d < panel.dim; ++d) {
      DoubleVector pitches[kDoubleVectors], offsets[kDoubleVectors];
      for (std::size_t v = 0; v < kDoubleVectors; ++v) {
        const std::size_t at = d * HashPanel::kFunctions + v * kDoubleLanes;
        pitches[v] = load_doubles(panel.factors + at);
        offsets[v] = load_doubles(panel.offsets + at);
      }
      for (std::size_t r = 0; r < kTogether; ++r) {
        const DoubleVector x = hn::Set(kDoubles, rows[r * panel.dim + d]);
        DoubleVector cells[kDoubleVectors];
        for (std::size_t v = 0; v < kDoubleVectors; ++v) {
          cells[v] = hn::Add(hn::Add(hn::Mul(pitches[v], x), offsets[v]), to_whole);
        }
        for (std::size_t v = 0; v < kWordVectors; ++v) {
          states[r][v] = murmur3_add(states[r][v], low_words(cells + v * kPerWords));
        }
      }
    }
    for (std::size_t r = 0; r < kTogether; ++r) {
      put(states[r], panel.dim * 4, panel, out + r * panel.m);
    }
  }
};

template <std::size_t kTogether>
HWY_INLINE void project(const HashPanel& panel, const double* rows,
                        DoubleVector (&sums)[kTogether][kDoubleVectors]) {
  for (auto& row : sums) {
    for (DoubleVector& sum : row) sum = hn::Zero(kDoubles);
  }
  for (std::size_t d = 0; d < panel.dim; ++d) {
    DoubleVector factors[kDoubleVectors];
    for (std::size_t v = 0; v < kDoubleVectors; ++v) {
      factors[v] = load_doubles(panel.factors + d * HashPanel::kFunctions + v * kDoubleLanes);
    }
    for (std::size_t r = 0; r < kTogether; ++r) {
      const DoubleVector x = hn::Set(kDoubles, rows[r * panel.dim + d]);
      for (std::size_t v = 0; v < kDoubleVectors; ++v) {
        sums[r][v] = hn::Add(sums[r][v], hn::Mul(factors[v], x));
      }
    }
  }
}

template <std::size_t kTogether>
struct Sums {
  static HWY_INLINE void hash(const HashPanel& panel, const double* rows, std::uint32_t* out) {
    DoubleVector sums[kTogether][kDoubleVectors];
    project<kTogether>(panel, rows, sums);
    for (std::size_t r = 0; r < kTogether; ++r) {
      for (std::size_t v = 0; v < kDoubleVectors; ++v) {
        const DoubleVector offset = load_doubles(panel.offsets + v * kDoubleLanes);
        sums[r][v] =
            hn::Add(hn::Add(sums[r][v], offset), hn::Set(kDoubles, compute::kToWhole));
      }
      WordVector states[kWordVectors];
      for (std::size_t v = 0; v < kWordVectors; ++v) {
        const DoubleVector* const numbers = sums[r] + v * kPerWords;
        const auto first = panel.first + static_cast<std::uint32_t>(v * kWordLanes);
        states[v] = murmur3_add(hn::Iota(kWords, first), low_words(numbers));
        states[v] = murmur3_add(states[v], high_words(numbers));
      }
      put(states, 8, panel, out + r * panel.m);
    }
  }
};

template <std::size_t kTogether>
struct Signs {
  static HWY_INLINE void hash(const HashPanel& panel, const double* rows, std::uint32_t* out) {
    DoubleVector sums[kTogether][kDoubleVectors];
    project<kTogether>(panel, rows, sums);
    for (std::size_t r = 0; r < kTogether; ++r) {
      HWY_ALIGN double values[HashPanel::kFunctions];
      for (std::size_t v = 0; v < kDoubleVectors; ++v) {
        hn::StoreU(sums[r][v], kDoubles, values + v * kDoubleLanes);
      }
      for (std::size_t i = 0; i < panel.functions; ++i) out[r * panel.m + i] = values[i] >= 0;
    }
  }
};

template <template <std::size_t> class Family>
void hash_rows(const HashPanel& panel, const double* rows, std::size_t count, std::uint32_t* out) {
  constexpr std::size_t kTogether = kDoubleVectors == 1 ? 8 : 4;
  std::size_t row = 0;
  for (; row + kTogether <= count; row += kTogether) {
    Family<kTogether>::hash(panel, rows + row * panel.dim, out + row * panel.m);
  }
  for (; row < count; ++row) {
    Family<1>::hash(panel, rows + row * panel.dim, out + row * panel.m);
  }
}

// A mask as bits, one for each lane.
template <class Tag>
HWY_INLINE std::uint64_t bits_of(Tag tag, hn::Mask<Tag> mask) {
  std::uint8_t bytes[(hn::MaxLanes(tag) + 7) / 8];
  hn::StoreMaskBits(tag, mask, bytes);
  std::uint64_t bits = bytes[0];
  if constexpr (sizeof bytes == 2) bits |= std::uint64_t{bytes[1]} << 8;
  return bits;
}

constexpr std::size_t kAhead = 1024;  // bytes; processors alone ask too late for the widest vectors

template <typename T>
void mask_interval(const T* HWY_RESTRICT values, std::size_t words, T low, T high,
                   std::uint64_t* HWY_RESTRICT masks) {
  const hn::CappedTag<T, 64 / sizeof(T)> tag;
  constexpr std::size_t kStep = hn::MaxLanes(tag);
  const auto least = hn::Set(tag, low), most = hn::Set(tag, high);
  for (std::size_t w = 0; w < words; ++w, values += 64) {
    std::uint64_t outside = 0;
    HWY_UNROLL(32)
    for (std::size_t i = 0; i < 64; i += kStep) {
      if constexpr (kStep * sizeof(T) == 64) __builtin_prefetch(values + i + kAhead / sizeof(T));
      const auto value = hn::LoadU(tag, values + i);
      outside |= bits_of(tag, hn::Or(hn::Lt(value, least), hn::Gt(value, most))) << i;
    }
    masks[w] = ~outside;
  }
}

void mask_lengths(const std::uint32_t* HWY_RESTRICT ends, std::size_t words, std::uint32_t length,
                  std::uint64_t* HWY_RESTRICT masks) {
  const hn::CappedTag<std::uint32_t, 16> tag;
  constexpr std::size_t kStep = hn::MaxLanes(tag);
  const auto wanted = hn::Set(tag, length);
  for (std::size_t w = 0; w < words; ++w, ends += 64) {
    std::uint64_t mask = 0;
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < 64; i += kStep) {
      const auto lengths = hn::Sub(hn::LoadU(tag, ends + i), hn::LoadU(tag, ends + i - 1));
      mask |= bits_of(tag, hn::Eq(lengths, wanted)) << i;
    }
    masks[w] = mask;
  }
}

// Compiled for a target, an instruction for each word; without one, compilers call a function.
std::size_t count_bits(const std::uint64_t* words, std::size_t n) {
  std::size_t bits = 0;
  for (std::size_t w = 0; w < n; ++w) bits += static_cast<std::size_t>(std::popcount(words[w]));
  return bits;
}

// A lane is a quantiser.
void try_levels(compute::LevelTries& tries) {
  constexpr std::size_t kTries = compute::LevelTries::kTries;
  const hn::CappedTag<double, kTries> tag;
  constexpr std::size_t kStep = hn::MaxLanes(tag), kVectors = kTries / kStep;
  const auto most = hn::Set(tag, tries.most), half = hn::Set(tag, 0.5);
  hn::VFromD<decltype(tag)> scales[kVectors], products[kVectors], squares[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) {
    scales[i] = hn::LoadU(tag, tries.scales + i * kStep);
    products[i] = squares[i] = hn::Zero(tag);
  }
  for (const double magnitude : tries.magnitudes) {
    const auto x = hn::Set(tag, magnitude);
    HWY_UNROLL(8)
    for (std::size_t i = 0; i < kVectors; ++i) {
      const auto level = hn::Add(hn::Floor(hn::Min(hn::Mul(x, scales[i]), most)), half);
      products[i] = hn::Add(products[i], hn::Mul(level, x));
      squares[i] = hn::Add(squares[i], hn::Mul(level, level));
    }
  }
  for (std::size_t i = 0; i < kVectors; ++i) {
    hn::StoreU(products[i], tag, tries.products + i * kStep);
    hn::StoreU(squares[i], tag, tries.squares + i * kStep);
  }
}

}  // namespace

void fill_host(compute::HostKernels& kernels) {
  kernels.product = {kRows, 2 * kLanes, add_block, add_row};
  kernels.hash_cells = hash_rows<Cells>;
  kernels.hash_sums = hash_rows<Sums>;
  kernels.hash_signs = hash_rows<Signs>;
  kernels.mask_integers = mask_interval<std::int64_t>;
  kernels.mask_reals = mask_interval<double>;
  kernels.mask_lengths = mask_lengths;
  kernels.count_bits = count_bits;
  kernels.try_levels = try_levels;
  kernels.nearest_in_groups = cpu::nearest_in_groups;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

const compute::HostKernels& host_kernels() {
  static const KernelTables<compute::HostKernels> tables{WARPLITE_EACH_TARGET(fill_host),
                                                          rotation_fills()};
  return tables.active();
}

}  // namespace warplite::cpu
#endif

// Product quantisation on vectors, with the bits of compute/ivf.h: lanes are codewords or rows, so
// that every width adds the same terms in the same order. No multiplication and addition may be
// fused here.
#include "cpu/ivf/pq_kernels.h"

#include <cstring>
#include <limits>

#include "cpu/runtime/highway_config.h"
#include "cpu/runtime/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/ivf/pq_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/ivf/nibbles-inl.h"
#include "cpu/ivf/survivors-inl.h"
#include "cpu/runtime/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Ints = hn::RebindToSigned<Floats>;
constexpr Ints kInts;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// t of kLanes codewords from `column` on, for each of `Rows` vectors that are `apart` floats apart.
template <std::size_t Rows>
HWY_INLINE void products(const PqCodebookView& book, const float* column, const float* z,
                         std::size_t apart, FloatVector* t) {
  for (std::size_t r = 0; r < Rows; ++r) t[r] = hn::Zero(kFloats);
  for (std::uint32_t i = 0; i < book.sub_dim; ++i, column += book.padded) {
    const FloatVector codewords = hn::LoadU(kFloats, column);
    HWY_UNROLL(4)
    for (std::size_t r = 0; r < Rows; ++r) {
      t[r] = hn::Add(t[r], hn::Mul(hn::Set(kFloats, z[r * apart + i]), codewords));
    }
  }
}

// T of one sub-space; returns its least, and its greatest in `high`.
float fill_row(const PqCodebookView& book, std::uint32_t s, const float* z, float factor,
               float* row, float* high) {
  const float* columns = book.columns + std::size_t{s} * book.sub_dim * book.padded;
  const FloatVector scale = hn::Set(kFloats, factor);
  FloatVector low = hn::Set(kFloats, kInfinity), most = hn::Set(kFloats, -kInfinity);
  for (std::uint32_t j = 0; j < book.padded; j += kLanes) {
    FloatVector t;
    products<1>(book, columns + j, z + std::size_t{s} * book.sub_dim, 0, &t);
    const FloatVector entry = hn::Mul(scale, t);
    hn::StoreU(entry, kFloats, row + j);
    low = hn::IfThenElse(hn::Lt(entry, low), entry, low);
    most = hn::IfThenElse(hn::Gt(entry, most), entry, most);
  }
  float lows[kLanes], mosts[kLanes];
  hn::StoreU(low, kFloats, lows);
  hn::StoreU(most, kFloats, mosts);
  *high = mosts[0];
  for (std::size_t i = 1; i < kLanes; ++i) {
    if (lows[i] < lows[0]) lows[0] = lows[i];
    if (mosts[i] > *high) *high = mosts[i];
  }
  return lows[0];
}

// T8 of one sub-space.
HWY_INLINE void round_row(const float* row, std::uint32_t codewords, float low, float step,
                          std::uint8_t* out) {
  const FloatVector lows = hn::Set(kFloats, low), steps = hn::Set(kFloats, step);
  const FloatVector half = hn::Set(kFloats, 0.5f), most = hn::Set(kFloats, 255.0f);
  for (std::uint32_t j = 0; j < codewords; j += kLanes) {
    const FloatVector entry = hn::LoadU(kFloats, row + j);
    const FloatVector value = hn::Add(hn::Div(hn::Sub(entry, lows), steps), half);
    const FloatVector bounded = hn::IfThenElse(hn::Lt(value, most), value, most);
    const auto bytes = hn::DemoteTo(hn::Rebind<std::uint8_t, Floats>(),
                                    hn::ConvertTo(kInts, bounded));
    hn::StoreU(bytes, hn::Rebind<std::uint8_t, Floats>(), out + j);
  }
}

void make_tables(const PqCodebookView& book, const float* z, float factor, float* scratch,
                 PqTables& out) {
  float widest = 0;
  const auto row = [&](std::uint32_t s) { return std::size_t{s} * book.codewords; };
  float* const lows = scratch + row(book.m);
  for (std::uint32_t s = 0; s < book.m; ++s) {
    float high;
    lows[s] = fill_row(book, s, z, factor, scratch + row(s), &high);
    if (high - lows[s] > widest) widest = high - lows[s];
    out.offset = s == 0 ? lows[s] : out.offset + lows[s];
  }
  out.step = widest / 255;
  if (out.step == 0) out.step = 1;
  for (std::uint32_t s = 0; s < book.m; ++s) {
    round_row(scratch + row(s), book.codewords, lows[s], out.step, out.entries + row(s));
  }
}

// The first of the nearest codewords: each lane has the first of its own.
HWY_INLINE std::uint8_t first_of_least(FloatVector least, FloatVector index) {
  const auto value = hn::Set(kFloats, hn::GetLane(hn::MinOfLanes(kFloats, least)));
  const auto first = hn::IfThenElse(hn::Eq(least, value), index, hn::Set(kFloats, kInfinity));
  return static_cast<std::uint8_t>(hn::GetLane(hn::MinOfLanes(kFloats, first)));
}

template <std::size_t Rows>
void assign_rows(const PqCodebookView& book, const float* rows, std::uint8_t* out) {
  const std::size_t dim = std::size_t{book.m} * book.sub_dim;
  for (std::uint32_t s = 0; s < book.m; ++s) {
    const float* columns = book.columns + std::size_t{s} * book.sub_dim * book.padded;
    const float* halves = book.halves + std::size_t{s} * book.padded;
    FloatVector least[Rows], nearest[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      least[r] = hn::Set(kFloats, kInfinity);
      nearest[r] = hn::Zero(kFloats);
    }
    for (std::uint32_t j = 0; j < book.padded; j += kLanes) {
      FloatVector t[Rows];
      products<Rows>(book, columns + j, rows + std::size_t{s} * book.sub_dim, dim, t);
      const FloatVector half = hn::LoadU(kFloats, halves + j);
      const FloatVector index = hn::Iota(kFloats, static_cast<float>(j));
      HWY_UNROLL(4)
      for (std::size_t r = 0; r < Rows; ++r) {
        const FloatVector e = hn::Sub(half, t[r]);
        const auto nearer = hn::Lt(e, least[r]);
        least[r] = hn::IfThenElse(nearer, e, least[r]);
        nearest[r] = hn::IfThenElse(nearer, index, nearest[r]);
      }
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      out[r * book.m + s] = first_of_least(least[r], nearest[r]);
    }
  }
}

void assign(const PqCodebookView& book, const float* rows, std::size_t count, std::uint8_t* out) {
  const std::size_t dim = std::size_t{book.m} * book.sub_dim;
  std::size_t row = 0;
  for (; row + 4 <= count; row += 4) assign_rows<4>(book, rows + row * dim, out + row * book.m);
  for (; row < count; ++row) assign_rows<1>(book, rows + row * dim, out + row * book.m);
}

// Four look-ups of a row. Loads are what limits these sums; codes that are shifted out of a word
// spare some, and bytes that are loaded spare shifts: half of each is fastest.
HWY_INLINE std::uint32_t sum_of_word(const std::uint8_t* table, const std::uint8_t* codes) {
  std::uint32_t four;
  std::memcpy(&four, codes, 4);
  return (table[four & 255u] + table[256 + ((four >> 8) & 255u)]) +
         (table[512 + ((four >> 16) & 255u)] + table[768 + (four >> 24)]);
}
HWY_INLINE std::uint32_t sum_of_bytes(const std::uint8_t* table, const std::uint8_t* codes) {
  return (table[codes[0]] + table[256 + codes[1]]) +
         (table[512 + codes[2]] + table[768 + codes[3]]);
}

void sum_bytes(const std::uint8_t* entries, const std::uint8_t* codes, std::size_t stride,
               std::uint32_t m, std::size_t n, std::uint16_t* sums) {
  for (std::size_t row = 0; row < n; ++row, codes += stride) {
    std::uint32_t words = 0, bytes = 0, s = 0;
    const std::uint8_t* table = entries;
    for (; s + 8 <= m; s += 8, table += 8 * 256) {
      words += sum_of_word(table, codes + s);
      bytes += sum_of_bytes(table + 4 * 256, codes + s + 4);
    }
    for (; s < m; ++s, table += 256) bytes += table[codes[s]];
    sums[row] = static_cast<std::uint16_t>(words + bytes);
  }
}

void sum_nibbles(const std::uint8_t* entries, const std::uint8_t* codes, std::size_t stride,
                 std::uint32_t m, std::size_t groups, std::uint16_t* sums) {
  for (std::size_t g = 0; g < groups; ++g) {
    nibbles::sum_group<1>(&entries, codes + g * stride, m, g * 32, &sums);
  }
}

void sum_nibbles_of_two(const std::uint8_t* const entries[2], const std::uint8_t* codes,
                        std::size_t stride, std::uint32_t m, std::size_t groups,
                        std::uint16_t* const sums[2]) {
  for (std::size_t g = 0; g < groups; ++g) {
    nibbles::sum_group<2>(entries, codes + g * stride, m, g * 32, sums);
  }
}

template <class Sum>
std::size_t find_survivors(const PqScores& of, const Sum* sums, float limit, float* scores,
                           std::uint32_t* places) {
  const FloatVector step = hn::Set(kFloats, of.step), a = hn::Set(kFloats, of.a);
  const FloatVector most = hn::Set(kFloats, limit);
  std::size_t found = 0, i = 0;
  for (; i + kLanes <= of.n; i += kLanes) {
    const FloatVector part =
        hn::Add(hn::Mul(step, load_sums(kFloats, sums + i)), hn::LoadU(kFloats, of.bias + i));
    const FloatVector score = hn::Add(part, a);
    const std::uint32_t within = not_set(kFloats, hn::Gt(score, most));
    if (within == 0) continue;
    hn::StoreU(score, kFloats, scores + i);
    found += write_places(within, i, places + found);
  }
  for (; i < of.n; ++i) {
    scores[i] = (of.step * static_cast<float>(sums[i]) + of.bias[i]) + of.a;
    if (!(scores[i] > limit)) places[found++] = static_cast<std::uint32_t>(i);
  }
  return found;
}

std::size_t survivors(const PqScores& of, float limit, float* scores, std::uint32_t* places) {
  return find_by_sums(
      of, [&](const auto* sums) { return find_survivors(of, sums, limit, scores, places); });
}

}  // namespace

void fill_pq(PqKernels& kernels) {
  kernels = {make_tables, assign, sum_bytes, sum_nibbles, sum_nibbles_of_two, survivors};
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

const PqKernels& pq_kernels() {
  static const KernelTables<PqKernels> tables{WARPLITE_EACH_TARGET(fill_pq)};
  return tables.active();
}

}  // namespace warplite::cpu
#endif

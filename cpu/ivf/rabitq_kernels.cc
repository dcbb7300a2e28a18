// RaBitQ codes, with the bits of compute/rabitq.h: every width adds the same terms in the same
// order. No multiplication and addition may be fused here.
#include "cpu/ivf/rabitq_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compute/ivf.h"
#include "cpu/ivf/pq_kernels.h"
#include "cpu/ivf/rabitq_vbmi.h"
#include "cpu/runtime/highway_config.h"
#include "cpu/runtime/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/ivf/rabitq_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/ivf/nibbles-inl.h"
#include "cpu/ivf/survivors-inl.h"
#include "cpu/runtime/floats-inl.h"
#include "cpu/runtime/simd_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kSums = 16;                 // of Σ16
constexpr std::size_t kVectors = kSums / kLanes;  // that hold them
using Ints = hn::RebindToSigned<Floats>;
constexpr Ints kInts;
constexpr std::uint32_t kRows = compute::RabitqGroup::kRows;
constexpr std::size_t kPieces = kRows / kLanes;

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE float fold(Floats, FloatVector sums) { return hn::GetLane(sums); }
#else
// Adds the upper half to the lower one, until one is left.
template <class D>
HWY_INLINE float fold(D, hn::VFromD<D> sums) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::GetLane(sums);
  } else {
    const hn::Half<D> half;
    return fold(half, hn::Add(hn::LowerHalf(half, sums), hn::UpperHalf(half, sums)));
  }
}
#endif

// Adds the sums as Σ16 does.
HWY_INLINE float total(FloatVector (&sums)[kVectors]) {
  for (std::size_t half = kVectors / 2; half != 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] = hn::Add(sums[i], sums[i + half]);
  }
  return fold(kFloats, sums[0]);
}

// The elements from the i-th on that are left of so many; then zeros, whose terms add nothing.
HWY_INLINE FloatVector load_rest(const float* x, std::size_t i, std::uint32_t dim) {
  return load_first(kFloats, reinterpret_cast<const std::byte*>(x + i), dim - i);
}

// The terms of D.
template <bool kProduct>
HWY_INLINE FloatVector term(FloatVector y, FloatVector c) {
  if constexpr (kProduct) return hn::Mul(y, c);
  const FloatVector x = hn::Sub(y, c);
  return hn::Mul(x, x);
}

template <bool kProduct, std::size_t kRowsAtOnce>
HWY_INLINE void distances_of(const float* y, const float* rows, std::uint32_t dim, float* out) {
  FloatVector sums[kRowsAtOnce][kVectors];
  for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(kFloats);
  }
  const std::uint32_t whole = dim / kSums * kSums;
  for (std::uint32_t i = 0; i < whole; i += kSums) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const FloatVector query = hn::LoadU(kFloats, y + i + v * kLanes);
      for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
        const float* row = rows + r * std::size_t{dim} + i + v * kLanes;
        sums[r][v] = hn::Add(sums[r][v], term<kProduct>(query, hn::LoadU(kFloats, row)));
      }
    }
  }
  for (std::size_t v = 0, i = whole; i < dim; ++v, i += kLanes) {
    const FloatVector query = load_rest(y, i, dim);
    for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
      const FloatVector row = load_rest(rows + r * std::size_t{dim}, i, dim);
      sums[r][v] = hn::Add(sums[r][v], term<kProduct>(query, row));
    }
  }
  for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
    out[r] = kProduct ? 0.0f - total(sums[r]) : total(sums[r]);
  }
}

template <bool kProduct>
void all_distances(const float* y, const float* rows, std::size_t n, std::uint32_t dim,
                   float* out) {
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) distances_of<kProduct, 4>(y, rows + i * dim, dim, out + i);
  for (; i < n; ++i) distances_of<kProduct, 1>(y, rows + i * dim, dim, out + i);
}

void distances(const float* y, const float* rows, std::size_t n, std::uint32_t dim, bool product,
               float* out) {
  if (product) {
    all_distances<true>(y, rows, n, dim, out);
  } else {
    all_distances<false>(y, rows, n, dim, out);
  }
}

#if HWY_TARGET == HWY_SCALAR

// T of whole sub-spaces.
HWY_INLINE void write_entries(const std::int8_t* w, std::uint32_t m, std::uint8_t* out) {
  for (std::uint32_t i = 0; i < m * 16; ++i) {
    std::int32_t sum = 128;
    for (std::uint32_t b = 0; b < 4; ++b) {
      const std::int32_t element = w[i / 16 * 4 + b];
      sum += ((i >> b) & 1) != 0 ? element : -element;
    }
    out[i] = static_cast<std::uint8_t>(sum);
  }
}

HWY_INLINE std::int32_t dot(const std::int8_t* elements, const std::uint8_t* planes,
                            std::uint32_t count, std::uint32_t dim) {
  const std::size_t bytes = compute::plane_bytes(dim);
  std::int32_t sum = 0;
  for (std::uint32_t i = 0; i < dim; ++i) {
    std::int32_t code = 0;
    for (std::uint32_t p = 0; p < count; ++p) {
      code = code * 2 + ((planes[p * bytes + i / 8] >> (i % 8)) & 1);
    }
    sum += code * elements[i];
  }
  return sum;
}

#else

using Octets = hn::CappedTag<std::uint8_t, 64>;
constexpr Octets kOctets;
constexpr std::size_t kOctetLanes = hn::MaxLanes(kOctets);

constexpr std::size_t kSpaces = kOctetLanes / 16;  // of a vector: 1, 2 or 4

// What makes entries of the elements of four sub-spaces: byte j of a sub-space has element b as it
// is where bit b of j is set, and else −w = ~w + 1, whose ones are in `start`.
struct EntryBytes {
  std::uint8_t element[4 / kSpaces][4][kOctetLanes], flip[4][kOctetLanes], start[kOctetLanes];

  constexpr EntryBytes() : element{}, flip{}, start{} {
    for (std::size_t lane = 0; lane < kOctetLanes; ++lane) {
      start[lane] = 128;
      for (std::size_t b = 0; b < 4; ++b) {
        const bool set = ((lane >> b) & 1) != 0;
        flip[b][lane] = set ? 0 : 255;
        if (!set) ++start[lane];
        for (std::size_t turn = 0; turn < 4 / kSpaces; ++turn) {
          element[turn][b][lane] = static_cast<std::uint8_t>((turn * kSpaces + lane / 16) * 4 + b);
        }
      }
    }
  }
};
constexpr EntryBytes kEntryBytes;

// T of sub-spaces, four at a time.
HWY_INLINE void write_entries(const std::int8_t* w, std::uint32_t m, std::uint8_t* out) {
  const auto start = hn::LoadU(kOctets, kEntryBytes.start);
  for (std::uint32_t s = 0; s < m; s += 4) {
    const auto four = hn::LoadDup128(kOctets, reinterpret_cast<const std::uint8_t*>(w) + s * 4);
    for (std::size_t turn = 0; turn < 4 / kSpaces; ++turn) {
      auto sum = start;
      for (std::size_t b = 0; b < 4; ++b) {
        const auto lanes = hn::LoadU(kOctets, kEntryBytes.element[turn][b]);
        const auto flip = hn::LoadU(kOctets, kEntryBytes.flip[b]);
        sum = hn::Add(sum, hn::Xor(hn::TableLookupBytes(four, lanes), flip));
      }
      hn::StoreU(sum, kOctets, out + s * 16 + turn * kOctetLanes);
    }
  }
}

// Σ e·v, where products of pairs fit 16 bits.
HWY_INLINE std::int32_t dot(const std::int8_t* elements, const std::uint8_t* planes,
                            std::uint32_t count, std::uint32_t dim) {
  using Half = hn::Half<Octets>;
  using Products = hn::Rebind<std::int16_t, Half>;
  const Half half;
  const Products shorts;
  const hn::RepartitionToWide<Products> wide;
  const hn::Rebind<std::int8_t, Half> half_elements;
  const std::size_t bytes = compute::plane_bytes(dim);
  auto sum0 = hn::Zero(wide), sum1 = hn::Zero(wide);
  for (std::uint32_t i = 0; i < dim; i += kOctetLanes) {
    auto codes = hn::Zero(kOctets);
    for (std::uint32_t p = 0; p < count; ++p) {
      const auto bits = hn::LoadMaskBits(kOctets, planes + p * bytes + i / 8);
      codes = hn::Or(codes,
                     hn::IfThenElseZero(
                         bits, hn::Set(kOctets, static_cast<std::uint8_t>(1u << (count - 1 - p)))));
    }
    const auto low = hn::PromoteTo(shorts, hn::LowerHalf(half, codes));
    const auto high = hn::PromoteTo(shorts, hn::UpperHalf(half, codes));
    const auto v0 = hn::PromoteTo(shorts, hn::LoadU(half_elements, elements + i));
    const auto v1 = hn::PromoteTo(shorts, hn::LoadU(half_elements, elements + i + kOctetLanes / 2));
    sum0 = hn::ReorderWidenMulAccumulate(wide, low, v0, sum0, sum1);
    sum0 = hn::ReorderWidenMulAccumulate(wide, high, v1, sum0, sum1);
  }
  return hn::GetLane(hn::SumOfLanes(wide, hn::Add(sum0, sum1)));
}

#endif

// x, and the greatest |x_i|; returns Σ16 x².
float subtract(const float* y, const float* centroid, std::uint32_t dim, float* x, float* top) {
  FloatVector sums[kVectors];
  FloatVector most = hn::Zero(kFloats);
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(kFloats);
  const auto add = [&](std::size_t v, std::size_t at, FloatVector a, FloatVector b) HWY_ATTR {
    const FloatVector each = hn::Sub(a, b);
    hn::StoreU(each, kFloats, x + at);
    sums[v] = hn::Add(sums[v], hn::Mul(each, each));
    most = hn::Max(most, hn::Abs(each));
  };
  const std::uint32_t whole = dim / kSums * kSums;
  for (std::uint32_t i = 0; i < whole; i += kSums) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = i + v * kLanes;
      add(v, at, hn::LoadU(kFloats, y + at), hn::LoadU(kFloats, centroid + at));
    }
  }
  for (std::size_t v = 0, i = whole; i < dim; ++v, i += kLanes) {
    add(v, i, load_rest(y, i, dim), load_rest(centroid, i, dim));
  }
  *top = hn::GetLane(hn::MaxOfLanes(kFloats, most));
  return total(sums);
}

// trunc(x·scale ± ½) of a vector of elements.
HWY_INLINE hn::VFromD<Ints> rounded(FloatVector x, FloatVector scale) {
  const FloatVector scaled = hn::Mul(x, scale);
  return hn::ConvertTo(kInts, hn::Add(scaled, hn::CopySign(hn::Set(kFloats, 0.5f), scaled)));
}

void tables(const float* y, const float* centroid, std::uint32_t dim, float* scratch,
            RabitqTables& out) {
  const std::uint32_t m = (dim + compute::kRabitqDims - 1) / compute::kRabitqDims;
  float* const x = scratch;
  float top;
  out.square = subtract(y, centroid, dim, x, &top);
  out.norm = std::sqrt(out.square);
  if (!(top >= compute::kLeastTop && top <= std::numeric_limits<float>::max())) {
    out.unit = out.fine = 0;
    out.sum = 0;
    std::memset(out.entries, 128, std::size_t{m} * 16);
    std::memset(out.elements, 0, dim);
    return;
  }
  const std::uint32_t padded = (dim + 15) / 16 * 16;
  for (std::uint32_t i = dim; i < padded; ++i) x[i] = 0;
  const FloatVector coarse = hn::Set(kFloats, 31.0f / top), fine = hn::Set(kFloats, 127.0f / top);
  const hn::Rebind<std::int8_t, Floats> narrow;
  auto sum = hn::Zero(kInts);
  // Each w takes the place of elements that were read.
  std::int8_t* const w = reinterpret_cast<std::int8_t*>(scratch);
  for (std::uint32_t i = 0; i < padded; i += kLanes) {
    const FloatVector element = hn::LoadU(kFloats, x + i);
    // What NaN becomes is narrow before it is added, since sums of it would not fit.
    const auto v = hn::DemoteTo(narrow, rounded(element, fine));
    sum = hn::Add(sum, hn::PromoteTo(kInts, v));
    hn::StoreU(v, narrow, out.elements + i);
    hn::StoreU(hn::DemoteTo(narrow, rounded(element, coarse)), narrow, w + i);
  }
  write_entries(w, m, out.entries);
  out.unit = top / 31.0f;
  out.fine = top / 254.0f;
  out.sum = hn::GetLane(hn::SumOfLanes(kInts, sum));
}

// What `low` has of a query and a list.
struct RabitqLowTerms {
  FloatVector unit, norm, a, most, middle;
};

HWY_INLINE FloatVector load_bfloats(const std::uint16_t* from) {
  const hn::Rebind<std::uint16_t, Floats> halves;
  const hn::RebindToUnsigned<Floats> bits;
  return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(halves, from))));
}

void live(const std::uint32_t* ordinals, std::size_t count, const std::uint64_t* bits,
          std::uint32_t first, std::uint32_t* out) {
  static_assert(std::endian::native == std::endian::little);
  const hn::RebindToUnsigned<Floats> d;
  const auto* const halves = reinterpret_cast<const std::int32_t*>(bits);
  const auto none = hn::Set(d, compute::kNoOrdinal), start = hn::Set(d, first);
  const auto low = hn::Set(d, 31u), one = hn::Set(d, 1u);
  for (std::size_t g = 0; g < count; ++g) {
    std::uint32_t mask = 0;
    for (std::size_t i = 0; i < kRows; i += kLanes) {
      const auto own = hn::LoadU(d, ordinals + g * kRows + i);
      const auto there = hn::Ne(own, none);
      const auto ordinal = hn::IfThenElseZero(there, hn::Add(own, start));
      const auto half = hn::BitCast(
          d, hn::GatherIndex(kInts, halves, hn::BitCast(kInts, hn::ShiftRight<5>(ordinal))));
      const auto bit = hn::And(hn::Shr(half, hn::And(ordinal, low)), one);
      mask |= not_set(d, hn::Not(hn::And(there, hn::Eq(bit, one)))) << i;
    }
    out[g] = mask;
  }
}

// `low` of kLanes rows of a group, from the i-th on.
HWY_INLINE FloatVector low_of(const std::int32_t* sums, const std::uint16_t* bias, std::size_t i,
                              const RabitqLowTerms& terms) {
  const auto *const f = bias + kRows, *const g = f + kRows;
  const FloatVector product = hn::Mul(
      terms.unit, hn::Sub(hn::ConvertTo(kFloats, hn::LoadU(kInts, sums + i)), terms.middle));
  const FloatVector score =
      hn::Add(hn::Add(terms.a, load_bfloats(bias + i)), hn::Mul(load_bfloats(f + i), product));
  return hn::Sub(score, hn::Mul(load_bfloats(g + i), terms.norm));
}

// All groups by some of the sub-spaces, which 16 bits hold.
template <std::size_t Queries>
void sum_some(const RabitqGroups& of, const RabitqLook* queries, std::uint32_t first,
              std::uint32_t m, std::int32_t* const* out) {
  const compute::RabitqGroup group(of.m);
  const std::uint8_t* entries[Queries];
  for (std::size_t q = 0; q < Queries; ++q) entries[q] = queries[q].entries + first * 16;
  of.for_each_group([&](std::size_t g) {
    nibbles::sum_group<Queries>(entries, of.first + g * group.size + first * 16, m, g * kRows, out);
  });
}

template <std::size_t Queries>
void sum(const RabitqGroups& of, const RabitqLook* queries) {
  std::int32_t* sums[Queries];
  for (std::size_t q = 0; q < Queries; ++q) sums[q] = queries[q].sums;
  sum_some<Queries>(of, queries, 0, std::min(kSummedSpaces, of.m), sums);
  for (std::uint32_t s = kSummedSpaces; s < of.m; s += kSummedSpaces) {
    std::int32_t more[Queries][RabitqGroups::kMost * kRows];
    std::int32_t* to[Queries];
    for (std::size_t q = 0; q < Queries; ++q) to[q] = more[q];
    sum_some<Queries>(of, queries, s, std::min(kSummedSpaces, of.m - s), to);
    of.for_each_group([&](std::size_t g) {
      for (std::size_t q = 0; q < Queries; ++q) {
        for (std::size_t i = g * kRows; i < (g + 1) * kRows; ++i) sums[q][i] += more[q][i];
      }
    });
  }
}

void find_near(const RabitqGroups& of, RabitqLook& query) {
  const compute::RabitqGroup group(of.m);
  // Sums and what is subtracted are below 2^24: the difference is exact.
  const RabitqLowTerms terms{hn::Set(kFloats, query.unit), hn::Set(kFloats, query.norm),
                             hn::Set(kFloats, query.a), hn::Set(kFloats, query.limit),
                             hn::Set(kFloats, 128.0f * static_cast<float>(of.m))};
  const std::uint8_t* const biases = of.first + group.bias;
  const std::int32_t* const sums = query.sums;
  float* const lows = query.lows;
  std::uint8_t* const places = query.places;
  std::size_t found = 0;
  of.for_each_group([&](std::size_t g) {
    const std::uint32_t counts = of.counts[g];
    const std::size_t first = g * kRows;
    const auto* const bias = reinterpret_cast<const std::uint16_t*>(biases + g * group.size);
    RowsWithin<kPieces> within;
    FloatVector low[kPieces];
    HWY_UNROLL(2)
    for (std::size_t p = 0; p < kPieces; ++p) {
      low[p] = low_of(sums + first, bias, p * kLanes, terms);
      within.set(kFloats, p, hn::Not(hn::Gt(low[p], terms.most)));
    }
    if (within.none(kFloats, counts)) return;
    HWY_UNROLL(2)
    for (std::size_t p = 0; p < kPieces; ++p) {
      hn::StoreU(low[p], kFloats, lows + first + p * kLanes);
    }
    found += within.write(kFloats, counts, first, places + found);
  });
  query.found = found;
}

void look(const RabitqGroups& of, RabitqLook* queries, std::size_t n) {
  std::size_t q = 0;
  for (; q + 2 <= n; q += 2) sum<2>(of, queries + q);
  if (q < n) sum<1>(of, queries + q);
  for (q = 0; q < n; ++q) find_near(of, queries[q]);
}

void dots(const std::int8_t* elements, const std::uint8_t* const* planes, std::size_t n,
          std::uint32_t count, std::uint32_t dim, std::int32_t* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = dot(elements, planes[i], count, dim);
}

}  // namespace

void fill_rabitq(RabitqKernels& kernels) {
  kernels = {distances, tables, live, look, dots};
}

#if HWY_TARGET == HWY_AVX3
void fill_rabitq_vbmi(RabitqKernels& kernels) {
  fill_rabitq(kernels);
  kernels.look = rabitq_look_vbmi;
  kernels.dots = rabitq_dots_vbmi;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

const RabitqKernels& rabitq_kernels() {
  static const KernelTables<RabitqKernels> tables{
      WARPLITE_EACH_TARGET_AND_VBMI(fill_rabitq, fill_rabitq_vbmi)};
  return tables.active();
}

}  // namespace warplite::cpu
#endif

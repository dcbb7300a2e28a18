// The float32 matrix product that nominates rows for a batch of queries, and the
// packing around it. Its rounding is bounded in bounded_product.h, so multiplications and
// additions may be fused; what it nominates is re-scored canonically.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/runtime/highway_config.h"
#include "cpu/scan/scan_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/scan/gemm_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/runtime/simd_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
constexpr Floats kFloats;
constexpr std::size_t kLanes = hn::MaxLanes(kFloats);
using FloatVector = hn::VFromD<Floats>;
#if HWY_TARGET == HWY_SCALAR
constexpr Floats kHalfFloats;  // of no use
#else
constexpr hn::Half<Floats> kHalfFloats;
#endif
using HalfVector = hn::VFromD<std::remove_const_t<decltype(kHalfFloats)>>;

// The register block: a panel's queries × 2 vectors of sums, two vectors of rows and one query
// value. 32 registers hold 14 queries, 16 hold 6.
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr std::size_t kWide = 14, kNarrow = 8;
constexpr std::size_t kMostSums = 16;  // of strips, which need a register of each query, too
#else
constexpr std::size_t kWide = 6, kNarrow = 4;
constexpr std::size_t kMostSums = 8;
#endif
constexpr std::size_t kRows = 2 * kLanes;

template <std::size_t kQueries>
void multiply(const float* HWY_RESTRICT panel, const float* HWY_RESTRICT tile, std::size_t depth,
              bool accumulate, float* HWY_RESTRICT dots, std::size_t leading, Ahead) {
  FloatVector sums[kQueries][2];
  HWY_UNROLL(16)
  for (std::size_t q = 0; q < kQueries; ++q) {
    sums[q][0] = accumulate ? hn::LoadU(kFloats, dots + q * leading) : hn::Zero(kFloats);
    sums[q][1] = accumulate ? hn::LoadU(kFloats, dots + q * leading + kLanes) : hn::Zero(kFloats);
  }
  for (std::size_t i = 0; i < depth; ++i) {
    const FloatVector y0 = hn::LoadU(kFloats, tile), y1 = hn::LoadU(kFloats, tile + kLanes);
    HWY_UNROLL(16)
    for (std::size_t q = 0; q < kQueries; ++q) {
      const FloatVector x = hn::Set(kFloats, panel[q]);
      sums[q][0] = hn::MulAdd(x, y0, sums[q][0]);
      sums[q][1] = hn::MulAdd(x, y1, sums[q][1]);
    }
    panel += kQueries;
    tile += kRows;
  }
  HWY_UNROLL(16)
  for (std::size_t q = 0; q < kQueries; ++q) {
    hn::StoreU(sums[q][0], kFloats, dots + q * leading);
    hn::StoreU(sums[q][1], kFloats, dots + q * leading + kLanes);
  }
}

// One bit per lane.
HWY_INLINE std::uint32_t bits_of(hn::Mask<Floats> mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(kFloats, mask, bytes);
  return bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8;
}

// Whole vectors are tested; only one with a survivor is looked at lane by lane.
std::size_t survivors(const float* HWY_RESTRICT dots, const float* HWY_RESTRICT halves,
                      const float* HWY_RESTRICT norms, std::size_t n, float slack, float offset,
                      std::uint32_t* out) {
  constexpr std::uint32_t kAll = (1u << kLanes) - 1;
  const FloatVector g = hn::Set(kFloats, slack), c = hn::Set(kFloats, offset);
  const auto below = [&](std::size_t r) HWY_ATTR {
    const FloatVector near = hn::MulAdd(g, hn::LoadU(kFloats, norms + r),
                                        hn::LoadU(kFloats, dots + r));
    return hn::Lt(near, hn::Add(hn::LoadU(kFloats, halves + r), c));
  };
  std::size_t found = 0;
  const auto write = [&](std::size_t r, std::uint32_t lanes) {
    for (; lanes != 0; lanes &= lanes - 1) {
      out[found++] = static_cast<std::uint32_t>(r) +
                     static_cast<std::uint32_t>(std::countr_zero(lanes));
    }
  };
  for (std::size_t r = 0; r < n; r += kRows) {
    const auto low = below(r), high = below(r + kLanes);
    if (HWY_LIKELY(hn::AllTrue(kFloats, hn::And(low, high)))) continue;
    write(r, kAll & ~bits_of(low));
    write(r + kLanes, kAll & ~bits_of(high));
  }
  return found;
}

// The least and the second of each lane, and positions as floats, which are exact: a block has few
// rows.
struct LaneLeasts {
  FloatVector least, second, at;
  HWY_INLINE LaneLeasts()
      : least(hn::Set(kFloats, std::numeric_limits<float>::infinity())),
        second(least),
        at(hn::Zero(kFloats)) {}

  HWY_INLINE void add(FloatVector value, FloatVector position) {
    const auto less = hn::Lt(value, least);
    second = hn::Min(second, hn::Max(least, value));
    at = hn::IfThenElse(less, position, at);
    least = hn::Min(least, value);
  }
  HWY_INLINE void add(const LaneLeasts& other) {
    add(other.least, other.at);
    second = hn::Min(second, other.second);
  }
};

void least_two(const float* HWY_RESTRICT dots, const float* HWY_RESTRICT halves,
               const float* HWY_RESTRICT norms, std::size_t n, float slack, std::uint32_t first,
               LeastTwo& out) {
  const FloatVector g = hn::Set(kFloats, slack);
  const FloatVector step = hn::Set(kFloats, static_cast<float>(kRows));
  LaneLeasts even, odd;
  FloatVector at = hn::Iota(kFloats, 0.0f), after = hn::Iota(kFloats, static_cast<float>(kLanes));
  const auto bound = [&](std::size_t r) HWY_ATTR {
    const FloatVector near = hn::MulAdd(g, hn::LoadU(kFloats, norms + r),
                                        hn::LoadU(kFloats, dots + r));
    return hn::Sub(hn::LoadU(kFloats, halves + r), near);
  };
  for (std::size_t r = 0; r < n; r += kRows) {
    even.add(bound(r), at);
    odd.add(bound(r + kLanes), after);
    at = hn::Add(at, step);
    after = hn::Add(after, step);
  }
  even.add(odd);
  const float low = hn::GetLane(hn::MinOfLanes(kFloats, even.least));
  const auto lowest = hn::Eq(even.least, hn::Set(kFloats, low));
  const std::intptr_t found = hn::FindFirstTrue(kFloats, lowest);
  const std::size_t lane = found < 0 ? 0 : static_cast<std::size_t>(found);
  // Of the other lanes, whose seconds are not less than their leasts.
  const auto chosen = hn::Eq(hn::Iota(kFloats, 0.0f), hn::Set(kFloats, static_cast<float>(lane)));
  const float next = hn::GetLane(hn::MinOfLanes(kFloats, hn::IfThenElse(chosen, even.second, even.least)));
  const bool less = low < out.least;
  out.second = std::min(out.second, std::min(next, less ? out.least : low));
  if (!less) return;
  float positions[kLanes];
  hn::StoreU(even.at, kFloats, positions);
  out.at = first + static_cast<std::uint32_t>(positions[lane]);
  out.least = low;
}

// Elements are converted a strip at a time, so that strips of all rows stay in the
// first-level cache until they are transposed.
constexpr std::size_t kStrip = GemmKernels::kStrip;

void ask_for(const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at);
}

// strip = (elements − centre) · scale, then zeros to the end of a pair of vectors. Returns the sum of
// their squares by lanes.
template <class Element>
HWY_INLINE FloatVector convert(const std::byte* from, const float* centre, float scale,
                               std::size_t n, float* HWY_RESTRICT strip) {
  const FloatVector factor = hn::Set(kFloats, scale);
  FloatVector even = hn::Zero(kFloats), odd = hn::Zero(kFloats);
  const auto write = [&](FloatVector value, std::size_t at, FloatVector& sum) HWY_ATTR {
    value = hn::Mul(value, factor);
    hn::StoreU(value, kFloats, strip + at);
    sum = hn::MulAdd(value, value, sum);
  };
  const auto whole = [&](std::size_t at, FloatVector& sum) HWY_ATTR {
    const FloatVector value = Element::load_floats(kFloats, from + at * Element::kBytes);
    write(centre == nullptr ? value : hn::Sub(value, hn::LoadU(kFloats, centre + at)), at, sum);
  };
  const auto last = [&](std::size_t at, FloatVector& sum) HWY_ATTR {
    if (at + kLanes <= n) return whole(at, sum);
    if (at >= n) return hn::StoreU(hn::Zero(kFloats), kFloats, strip + at);
    FloatVector value = Element::load_first_floats(kFloats, from + at * Element::kBytes, n - at);
    if (centre != nullptr) {
      const auto* bytes = reinterpret_cast<const std::byte*>(centre + at);
      value = hn::Sub(value, load_first(kFloats, bytes, n - at));
    }
    write(value, at, sum);
  };
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    whole(i, even);
    whole(i + kLanes, odd);
  }
  if (i < n) {
    last(i, even);
    last(i + kLanes, odd);
  }
  return hn::Add(even, odd);
}

FloatVector convert(ElementType type, const std::byte* from, const float* centre, float scale,
                    std::size_t n, float* strip) {
  using enum ElementType;
  switch (type) {
    case kFloat32: return convert<Elements<kFloat32>>(from, centre, scale, n, strip);
    case kFloat16: return convert<Elements<kFloat16>>(from, centre, scale, n, strip);
    case kBFloat16: return convert<Elements<kBFloat16>>(from, centre, scale, n, strip);
    case kInt8: return convert<Elements<kInt8>>(from, centre, scale, n, strip);
    case kBit: break;
  }
  return hn::Zero(kFloats);
}

// Sums squares of float32, a strip at a time, with a relative error of at most 16 units: no lane adds
// more than eight squares before it adds a few other sums, or goes on in double.
class Squares {
 public:
  HWY_INLINE Squares() : sums_(hn::Zero(Doubles())) {}
  HWY_INLINE double sum() const { return hn::GetLane(hn::SumOfLanes(Doubles(), sums_)); }

  // `lanes`: what convert() has returned for the strip.
  HWY_INLINE void add([[maybe_unused]] FloatVector lanes, [[maybe_unused]] const float* strip,
                      [[maybe_unused]] std::size_t n) {
#if HWY_TARGET == HWY_SCALAR
    for (std::size_t i = 0; i < n; ++i) {
      const auto value = hn::Set(Doubles(), static_cast<double>(strip[i]));
      sums_ = hn::MulAdd(value, value, sums_);
    }
#else
    const hn::Rebind<float, Doubles> half;
    const auto low = hn::PromoteTo(Doubles(), hn::LowerHalf(half, lanes));
    const auto high = hn::PromoteTo(Doubles(), hn::UpperHalf(half, lanes));
    sums_ = hn::Add(sums_, hn::Add(low, high));
#endif
  }

 private:
  using Doubles = hn::CappedTag<double, 8>;
  hn::VFromD<Doubles> sums_;
};

// The squared norm of a vector, in double.
template <class Element>
HWY_INLINE double squared_norm(const std::byte* vector, std::size_t dim) {
  const hn::CappedTag<double, 8> doubles;
  const hn::Rebind<float, decltype(doubles)> floats;
  constexpr std::size_t kStep = hn::MaxLanes(doubles), kBytes = Element::kBytes;
  auto even = hn::Zero(doubles), odd = hn::Zero(doubles);
  const auto square = [&](hn::VFromD<decltype(floats)> elements, auto& sum) HWY_ATTR {
    const auto x = hn::PromoteTo(doubles, elements);
    sum = hn::MulAdd(x, x, sum);
  };
  std::size_t i = 0;
  for (; i + 2 * kStep <= dim; i += 2 * kStep) {
    square(Element::load_floats(floats, vector + i * kBytes), even);
    square(Element::load_floats(floats, vector + (i + kStep) * kBytes), odd);
  }
  for (; i < dim; i += kStep) {
    square(Element::load_first_floats(floats, vector + i * kBytes, dim - i), even);
  }
  return hn::GetLane(hn::SumOfLanes(doubles, hn::Add(even, odd)));
}

double squared_norm(const PackSource& source, const std::byte* vector) {
  using enum ElementType;
  switch (source.type) {
    case kFloat32: return squared_norm<Elements<kFloat32>>(vector, source.dim);
    case kFloat16: return squared_norm<Elements<kFloat16>>(vector, source.dim);
    case kBFloat16: return squared_norm<Elements<kBFloat16>>(vector, source.dim);
    case kInt8: return squared_norm<Elements<kInt8>>(vector, source.dim);
    case kBit: break;
  }
  return 0;
}

// A factor that float32 holds to its full precision is applied there, another in double.
template <class Convert>
HWY_INLINE void convert_to_unit(const Convert& convert, double inverse, std::size_t n,
                                float* strip) {
  const bool fits = inverse > 0x1p-100 && inverse < 0x1p100;
  convert(fits ? static_cast<float>(inverse) : 1.0f);
  for (std::size_t i = 0; i < n && !fits; ++i) strip[i] = static_cast<float>(strip[i] * inverse);
}

// to[i * after + v] = from[v * apart + i], i < n, v < width
HWY_INLINE void transpose(const float* HWY_RESTRICT from, std::size_t apart, std::size_t n,
                          std::size_t width, float* HWY_RESTRICT to, std::size_t after) {
  std::size_t v = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  for (; v + 4 <= width; v += 4) {
    const float* four = from + v * apart;
    for (std::size_t i = 0; i + 4 <= n; i += 4) {
      const auto a = hn::LoadU(d, four + i), b = hn::LoadU(d, four + i + apart);
      const auto e = hn::LoadU(d, four + i + 2 * apart), f = hn::LoadU(d, four + i + 3 * apart);
      const auto ab = hn::InterleaveLower(d, a, b), ef = hn::InterleaveLower(d, e, f);
      const auto ab2 = hn::InterleaveUpper(d, a, b), ef2 = hn::InterleaveUpper(d, e, f);
      float* out = to + i * after + v;
      hn::StoreU(hn::ConcatLowerLower(d, ef, ab), d, out);
      hn::StoreU(hn::ConcatUpperUpper(d, ef, ab), d, out + after);
      hn::StoreU(hn::ConcatLowerLower(d, ef2, ab2), d, out + 2 * after);
      hn::StoreU(hn::ConcatUpperUpper(d, ef2, ab2), d, out + 3 * after);
    }
    for (std::size_t i = n / 4 * 4; i < n; ++i) {
      for (std::size_t j = 0; j < 4; ++j) to[i * after + v + j] = four[j * apart + i];
    }
  }
#endif
  for (; v < width; ++v) {
    for (std::size_t i = 0; i < n; ++i) to[i * after + v] = from[v * apart + i];
  }
}

// Each element of a row meets that of all queries of the panel, two to four halves of a vector: rows need no
// transposing, their products do. A line is asked for with every element of so many rows, since memory
// answers few questions at a time.
template <std::size_t kHalves, std::size_t kMostRows, bool kByRow>
void multiply_strips(const float* HWY_RESTRICT panel, const float* HWY_RESTRICT tile,
                     std::size_t depth, bool, float* HWY_RESTRICT dots, std::size_t leading,
                     Ahead ahead) {
  constexpr std::size_t kVectors = kHalves / 2, kQueries = kHalves * kLanes / 2;
  constexpr bool kHalf = kHalves % 2 != 0;
  constexpr std::size_t kAtOnce = kRows < kMostRows ? kRows : kMostRows;
  const bool asks = ahead.bytes != nullptr;
  const std::byte* soon = asks ? ahead.bytes : reinterpret_cast<const std::byte*>(panel);
  const std::size_t step = asks ? ahead.each * kAtOnce : 0;
  for (std::size_t r = 0; r < kRows; r += kAtOnce) {
    FloatVector sums[kAtOnce][kVectors];
    HalfVector halves[kAtOnce];
    HWY_UNROLL(16)
    for (std::size_t j = 0; j < kAtOnce; ++j) {
      HWY_UNROLL(2)
      for (std::size_t v = 0; v < kVectors; ++v) sums[j][v] = hn::Zero(kFloats);
      if constexpr (kHalf) halves[j] = hn::Zero(kHalfFloats);
    }
    const float* HWY_RESTRICT x = panel;
    for (std::size_t at = 0; at < depth; at += kStrip) {
      const float* HWY_RESTRICT row = tile + at * kRows + r * kStrip;
      const float* const end = row + (depth - at < kStrip ? depth - at : kStrip);
      for (; row != end; ++row, x += kQueries, soon += step) {
        __builtin_prefetch(soon, 0, 2);
        FloatVector queries[kVectors];
        HWY_UNROLL(2)
        for (std::size_t v = 0; v < kVectors; ++v) queries[v] = hn::LoadU(kFloats, x + v * kLanes);
        HalfVector half;
        if constexpr (kHalf) half = hn::LoadU(kHalfFloats, x + kVectors * kLanes);
        HWY_UNROLL(16)
        for (std::size_t j = 0; j < kAtOnce; ++j) {
          const FloatVector y = hn::Set(kFloats, row[j * kStrip]);
          HWY_UNROLL(2)
          for (std::size_t v = 0; v < kVectors; ++v) {
            sums[j][v] = hn::MulAdd(y, queries[v], sums[j][v]);
          }
          if constexpr (kHalf) {
            halves[j] = hn::MulAdd(hn::Set(kHalfFloats, row[j * kStrip]), half, halves[j]);
          }
        }
      }
    }
    HWY_ALIGN float block[kAtOnce * kQueries];
    float* const out = kByRow ? dots + r * kQueries : block;
    HWY_UNROLL(16)
    for (std::size_t j = 0; j < kAtOnce; ++j) {
      HWY_UNROLL(2)
      for (std::size_t v = 0; v < kVectors; ++v) {
        hn::StoreU(sums[j][v], kFloats, out + j * kQueries + v * kLanes);
      }
      if constexpr (kHalf) {
        hn::StoreU(halves[j], kHalfFloats, out + j * kQueries + kVectors * kLanes);
      }
    }
    if constexpr (!kByRow) transpose(block, kQueries, kQueries, kAtOnce, dots + r, leading);
  }
}

constexpr std::size_t kWidest = kRows > kWide ? kRows : kWide;

void pack(const PackSource& source, const std::byte* const* vectors, std::size_t width,
          float* packed, double* squares) {
  HWY_ALIGN float strips[kWidest * kStrip];
  Squares sums[kWidest];
  double inverse[kWidest] = {};
  for (std::size_t v = 0; v < width; ++v) {
    if (vectors[v] == nullptr) std::memset(strips + v * kStrip, 0, kStrip * sizeof(float));
    squares[v] = source.unit && vectors[v] != nullptr ? squared_norm(source, vectors[v]) : 0;
    if (squares[v] > 0) inverse[v] = 1 / std::sqrt(squares[v]);
  }
  const std::size_t stride = bytes_per_vector(source.type, source.dim);
  const std::size_t strip_bytes = bytes_per_vector(source.type, kStrip);
  for (std::size_t at = 0; at < source.dim; at += kStrip) {
    const bool last = source.dim - at <= kStrip;
    const std::size_t n = last ? source.dim - at : kStrip;
    // The strip after this one; after the last, what is most often packed next.
    const std::size_t ahead = last ? (width - 1) * stride + n * (stride / source.dim) : strip_bytes;
    for (std::size_t v = 0; v < width; ++v) {
      if (vectors[v] == nullptr) continue;
      float* strip = strips + v * kStrip;
      const std::byte* from = vectors[v] + bytes_per_vector(source.type, at);
      ask_for(from + ahead, strip_bytes);
      if (source.unit) {
        const auto scaled = [&](float scale) { convert(source.type, from, nullptr, scale, n, strip); };
        convert_to_unit(scaled, inverse[v], n, strip);
      } else {
        const float* centre = source.centre != nullptr ? source.centre + at : nullptr;
        sums[v].add(convert(source.type, from, centre, source.scale, n, strip), strip, n);
      }
    }
    transpose(strips, kStrip, n, width, packed + at * width, width);
  }
  for (std::size_t v = 0; v < width && !source.unit; ++v) squares[v] = sums[v].sum();
}

// One vector, the first strip of which is at `to`; returns its squared norm.
template <class Element>
HWY_INLINE double pack_strips_of(const PackSource& source, const std::byte* vector,
                                 float* HWY_RESTRICT to) {
  const double square = source.unit ? squared_norm<Element>(vector, source.dim) : 0;
  const double inverse = square > 0 ? 1 / std::sqrt(square) : 0;
  Squares squares;
  for (std::size_t at = 0; at < source.dim; at += kStrip, to += kRows * kStrip) {
    const std::size_t n = source.dim - at < kStrip ? source.dim - at : kStrip;
    const std::byte* const from = vector + at * Element::kBytes;
    if (source.unit) {
      const auto scaled = [&](float scale) HWY_ATTR { convert<Element>(from, nullptr, scale, n, to); };
      convert_to_unit(scaled, inverse, n, to);
    } else {
      const float* const centre = source.centre != nullptr ? source.centre + at : nullptr;
      squares.add(convert<Element>(from, centre, source.scale, n, to), to, n);
    }
  }
  return source.unit ? square : squares.sum();
}

void pack_strips(const PackSource& source, const std::byte* const* vectors, std::size_t width,
                 float* packed, double* squares) {
  const auto pack_one = [&](std::size_t v, float* to) HWY_ATTR -> double {
    using enum ElementType;
    switch (source.type) {
      case kFloat32: return pack_strips_of<Elements<kFloat32>>(source, vectors[v], to);
      case kFloat16: return pack_strips_of<Elements<kFloat16>>(source, vectors[v], to);
      case kBFloat16: return pack_strips_of<Elements<kBFloat16>>(source, vectors[v], to);
      case kInt8: return pack_strips_of<Elements<kInt8>>(source, vectors[v], to);
      case kBit: break;
    }
    return 0;
  };
  for (std::size_t v = 0; v < width; ++v) {
    float* const to = packed + v * kStrip;
    squares[v] = 0;
    if (vectors[v] != nullptr) {
      squares[v] = pack_one(v, to);
      continue;
    }
    for (std::size_t at = 0; at < source.dim; at += kStrip) {
      std::memset(to + at * width, 0, kStrip * sizeof(float));
    }
  }
}

}  // namespace

void fill_gemm(ScanKernels& kernels) {
  GemmKernels& gemm = kernels.gemm;
  gemm.wide = {kWide, false, false, multiply<kWide>};
  gemm.narrow = {kNarrow, false, false, multiply<kNarrow>};
  gemm.few = {2 * kLanes, true, false, multiply_strips<4, kMostSums / 2, false>};
#if HWY_TARGET == HWY_SCALAR
  gemm.between = gemm.few;
#else
  gemm.between = {3 * kLanes / 2, true, false, multiply_strips<3, kMostSums / 2, false>};
#endif
  gemm.fewer = {kLanes, true, false, multiply_strips<2, kMostSums, false>};
  gemm.few_by_row = {2 * kLanes, true, true, multiply_strips<4, kMostSums / 2, true>};
  gemm.fewer_by_row = {kLanes, true, true, multiply_strips<2, kMostSums, true>};
  gemm.rows = kRows;
  gemm.pack = pack;
  gemm.pack_strips = pack_strips;
  gemm.survivors = survivors;
  gemm.least_two = least_two;
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

TargetFills<ScanKernels> gemm_fills() { return WARPLITE_EACH_TARGET(fill_gemm); }

}  // namespace warplite::cpu
#endif

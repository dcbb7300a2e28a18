// Vectors as the float32 operands of the product (gemm_kernels.cc). Elements are converted a strip at a
// time, so that strips of all rows stay in the first-level cache until they are transposed.
#include <cmath>
#include <cstring>

#include "cpu/runtime/highway_config.h"
#include "cpu/scan/scan_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/scan/pack_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/runtime/floats-inl.h"
#include "cpu/runtime/simd_load-inl.h"
#include "cpu/scan/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

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

void fill_pack(ScanKernels& kernels) {
  kernels.gemm.pack = pack;
  kernels.gemm.pack_strips = pack_strips;
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

TargetFills<ScanKernels> pack_fills() { return WARPLITE_EACH_TARGET(fill_pack); }

}  // namespace warplite::cpu
#endif

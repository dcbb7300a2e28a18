// The float32 matrix product that nominates rows for a batch of queries, and the
// packing around it. Its rounding is bounded in nominate.h, so multiplications and
// additions may be fused; what it nominates is re-scored canonically.
#include <cmath>
#include <cstring>

#include "core/half.h"
#include "cpu/highway_config.h"
#include "cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
constexpr Floats kFloats;
constexpr std::size_t kLanes = hn::MaxLanes(kFloats);
using FloatVector = hn::VFromD<Floats>;

// The register block: kQueries × 2 vectors of sums, two vectors of rows and one query
// value. 32 registers hold 14 queries, 16 hold 6.
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr std::size_t kQueries = 14;
#else
constexpr std::size_t kQueries = 6;
#endif
constexpr std::size_t kRows = 2 * kLanes;

void multiply(const float* HWY_RESTRICT panel, const float* HWY_RESTRICT tile, std::size_t depth,
              bool accumulate, float* HWY_RESTRICT dots, std::size_t leading) {
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

// Whole vectors are tested; only one with a survivor is looked at lane by lane.
std::size_t survivors(const float* HWY_RESTRICT dots, const float* HWY_RESTRICT halves,
                      const float* HWY_RESTRICT norms, std::size_t n, float slack, float offset,
                      std::uint32_t* out) {
  const FloatVector g = hn::Set(kFloats, slack), c = hn::Set(kFloats, offset);
  std::size_t found = 0;
  for (std::size_t r = 0; r < n; r += kRows) {
    const FloatVector low = hn::MulAdd(g, hn::LoadU(kFloats, norms + r),
                                       hn::LoadU(kFloats, dots + r));
    const FloatVector high = hn::MulAdd(g, hn::LoadU(kFloats, norms + r + kLanes),
                                        hn::LoadU(kFloats, dots + r + kLanes));
    const auto below_low = hn::Lt(low, hn::Add(hn::LoadU(kFloats, halves + r), c));
    const auto below_high = hn::Lt(high, hn::Add(hn::LoadU(kFloats, halves + r + kLanes), c));
    if (HWY_LIKELY(hn::AllTrue(kFloats, hn::And(below_low, below_high)))) continue;
    for (std::size_t lane = r; lane < r + kRows; ++lane) {
      if (!(dots[lane] + slack * norms[lane] < halves[lane] + offset)) {
        out[found++] = static_cast<std::uint32_t>(lane);
      }
    }
  }
  return found;
}

// Elements are converted a strip at a time, so that strips of all rows stay in the
// first-level cache until they are transposed.
constexpr std::size_t kStrip = 64;

void ask_for(const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at);
}

template <class T>
T element(const std::byte* vector, std::size_t i) {
  T value;
  std::memcpy(&value, vector + i * sizeof value, sizeof value);
  return value;
}

void convert(ElementType type, const std::byte* vector, std::size_t begin, std::size_t n,
             float* out) {
  if (type == ElementType::kFloat32) {
    std::memcpy(out, vector + begin * sizeof(float), n * sizeof(float));
  } else if (type == ElementType::kInt8) {
    for (std::size_t i = 0; i < n; ++i) out[i] = element<std::int8_t>(vector, begin + i);
  } else {
    std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::Rebind<hwy::float16_t, Floats> halves;
    for (; i + kLanes <= n; i += kLanes) {
      const auto* from = reinterpret_cast<const hwy::float16_t*>(vector + (begin + i) * 2);
      hn::StoreU(hn::PromoteTo(kFloats, hn::LoadU(halves, from)), kFloats, out + i);
    }
#endif
    for (; i < n; ++i) out[i] = half_to_float(element<std::uint16_t>(vector, begin + i));
  }
}

// Strips are padded with zeros to whole vectors.
double sum_of_squares(const float* values, std::size_t n) {
  const hn::CappedTag<double, 8> doubles;
  const hn::Rebind<float, decltype(doubles)> floats;
  constexpr std::size_t kStep = hn::MaxLanes(doubles);
  auto even = hn::Zero(doubles), odd = hn::Zero(doubles);
  for (std::size_t i = 0; i < n; i += 2 * kStep) {
    const auto a = hn::PromoteTo(doubles, hn::LoadU(floats, values + i));
    const auto b = hn::PromoteTo(doubles, hn::LoadU(floats, values + i + kStep));
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  return hn::GetLane(hn::SumOfLanes(doubles, hn::Add(even, odd)));
}

void clear_rest(float* strip, std::size_t n) {
  for (std::size_t i = n; i < kStrip && i < n + 16; ++i) strip[i] = 0;
}

double squared_norm(const PackSource& source, const std::byte* vector) {
  HWY_ALIGN float strip[kStrip] = {};
  double sum = 0;
  for (std::size_t at = 0; at < source.dim; at += kStrip) {
    const std::size_t n = source.dim - at < kStrip ? source.dim - at : kStrip;
    convert(source.type, vector, at, n, strip);
    clear_rest(strip, n);
    sum += sum_of_squares(strip, n);
  }
  return sum;
}

// (strip − centre) · scale
void shift_and_scale(const float* centre, float scale, std::size_t n, float* strip) {
  const FloatVector factor = hn::Set(kFloats, scale);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    FloatVector value = hn::LoadU(kFloats, strip + i);
    if (centre != nullptr) value = hn::Sub(value, hn::LoadU(kFloats, centre + i));
    hn::StoreU(hn::Mul(value, factor), kFloats, strip + i);
  }
  for (; i < n; ++i) strip[i] = (strip[i] - (centre != nullptr ? centre[i] : 0)) * scale;
}

// A factor that float32 holds to its full precision is applied there, another in double.
void divide_by_norm(double inverse, std::size_t n, float* strip) {
  if (inverse > 0x1p-100 && inverse < 0x1p100) {
    shift_and_scale(nullptr, static_cast<float>(inverse), n, strip);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) strip[i] = static_cast<float>(strip[i] * inverse);
}

// packed[i][v] = strips[v][i]
void transpose(const float* strips, std::size_t n, std::size_t width, float* packed) {
  std::size_t v = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  for (; v + 4 <= width; v += 4) {
    const float* from = strips + v * kStrip;
    for (std::size_t i = 0; i + 4 <= n; i += 4) {
      const auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + kStrip);
      const auto e = hn::LoadU(d, from + i + 2 * kStrip), f = hn::LoadU(d, from + i + 3 * kStrip);
      const auto ab = hn::InterleaveLower(d, a, b), ef = hn::InterleaveLower(d, e, f);
      const auto ab2 = hn::InterleaveUpper(d, a, b), ef2 = hn::InterleaveUpper(d, e, f);
      float* to = packed + i * width + v;
      hn::StoreU(hn::ConcatLowerLower(d, ef, ab), d, to);
      hn::StoreU(hn::ConcatUpperUpper(d, ef, ab), d, to + width);
      hn::StoreU(hn::ConcatLowerLower(d, ef2, ab2), d, to + 2 * width);
      hn::StoreU(hn::ConcatUpperUpper(d, ef2, ab2), d, to + 3 * width);
    }
    for (std::size_t i = n / 4 * 4; i < n; ++i) {
      for (std::size_t j = 0; j < 4; ++j) packed[i * width + v + j] = from[j * kStrip + i];
    }
  }
#endif
  for (; v < width; ++v) {
    for (std::size_t i = 0; i < n; ++i) packed[i * width + v] = strips[v * kStrip + i];
  }
}

constexpr std::size_t kWidest = kRows > kQueries ? kRows : kQueries;

void pack(const PackSource& source, const std::byte* const* vectors, std::size_t width,
          float* packed, double* squares) {
  HWY_ALIGN float strips[kWidest * kStrip] = {};
  double inverse[kWidest] = {};
  for (std::size_t v = 0; v < width; ++v) {
    squares[v] = source.unit && vectors[v] != nullptr ? squared_norm(source, vectors[v]) : 0;
    if (squares[v] > 0) inverse[v] = 1 / std::sqrt(squares[v]);
  }
  const std::size_t stride = bytes_per_vector(source.type, source.dim);
  const std::size_t strip_bytes = bytes_per_vector(source.type, kStrip);
  for (std::size_t at = 0; at < source.dim; at += kStrip) {
    const std::size_t n = source.dim - at < kStrip ? source.dim - at : kStrip;
    for (std::size_t v = 0; v < width; ++v) {
      if (vectors[v] == nullptr) continue;
      // The strip after this one; after the last, what is most often packed next.
      const bool last = at + kStrip >= source.dim;
      ask_for(last ? vectors[v] + width * stride
                   : vectors[v] + bytes_per_vector(source.type, at + kStrip), strip_bytes);
      float* strip = strips + v * kStrip;
      convert(source.type, vectors[v], at, n, strip);
      if (source.unit) {
        divide_by_norm(inverse[v], n, strip);
      } else {
        shift_and_scale(source.centre != nullptr ? source.centre + at : nullptr, source.scale, n,
                        strip);
        clear_rest(strip, n);
        squares[v] += sum_of_squares(strip, n);
      }
    }
    transpose(strips, n, width, packed + at * width);
  }
}

}  // namespace

void fill_gemm(Kernels& kernels) {
  kernels.gemm = {kQueries, kRows, multiply, pack, survivors};
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

TargetExports gemm_exports() {
  return {HWY_CHOOSE_AVX3(fill_gemm), HWY_CHOOSE_AVX2(fill_gemm), HWY_CHOOSE_SSE4(fill_gemm),
          HWY_CHOOSE_NEON(fill_gemm), HWY_CHOOSE_FALLBACK(fill_gemm)};
}

}  // namespace warplite::cpu
#endif

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

double sum_of_squares(const float* values, std::size_t n) {
  double sums[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double value = values[i + j];
      sums[j] += value * value;
    }
  }
  for (; i < n; ++i) sums[0] += static_cast<double>(values[i]) * values[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

double squared_norm(const PackSource& source, const std::byte* vector) {
  float strip[kStrip];
  double sum = 0;
  for (std::size_t at = 0; at < source.dim; at += kStrip) {
    const std::size_t n = source.dim - at < kStrip ? source.dim - at : kStrip;
    convert(source.type, vector, at, n, strip);
    sum += sum_of_squares(strip, n);
  }
  return sum;
}

void shift_and_scale(const PackSource& source, std::size_t at, std::size_t n, float* strip) {
  if (source.centre != nullptr) {
    const float* centre = source.centre + at;
    for (std::size_t i = 0; i < n; ++i) strip[i] = (strip[i] - centre[i]) * source.scale;
  } else {
    for (std::size_t i = 0; i < n; ++i) strip[i] *= source.scale;
  }
}

// packed[i][v] = strips[v][i]
void transpose(const float* strips, std::size_t n, std::size_t width, float* packed) {
  std::size_t v = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  for (; v + 4 <= width; v += 4) {
    const float* from = strips + v * kStrip;
    for (std::size_t i = 0; i < n; i += 4) {  // strips are whole, so the last may run over
      const auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + kStrip);
      const auto e = hn::LoadU(d, from + i + 2 * kStrip), f = hn::LoadU(d, from + i + 3 * kStrip);
      const auto ab = hn::InterleaveLower(d, a, b), ef = hn::InterleaveLower(d, e, f);
      const auto ab2 = hn::InterleaveUpper(d, a, b), ef2 = hn::InterleaveUpper(d, e, f);
      float* to = packed + i * width + v;
      hn::StoreU(hn::ConcatLowerLower(d, ef, ab), d, to);
      if (i + 1 < n) hn::StoreU(hn::ConcatUpperUpper(d, ef, ab), d, to + width);
      if (i + 2 < n) hn::StoreU(hn::ConcatLowerLower(d, ef2, ab2), d, to + 2 * width);
      if (i + 3 < n) hn::StoreU(hn::ConcatUpperUpper(d, ef2, ab2), d, to + 3 * width);
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
  for (std::size_t at = 0; at < source.dim; at += kStrip) {
    const std::size_t n = source.dim - at < kStrip ? source.dim - at : kStrip;
    for (std::size_t v = 0; v < width; ++v) {
      if (vectors[v] == nullptr) continue;
      float* strip = strips + v * kStrip;
      convert(source.type, vectors[v], at, n, strip);
      if (source.unit) {
        for (std::size_t i = 0; i < n; ++i) strip[i] = static_cast<float>(strip[i] * inverse[v]);
      } else {
        shift_and_scale(source, at, n, strip);
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

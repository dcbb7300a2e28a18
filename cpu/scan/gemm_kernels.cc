// The float32 matrix product that nominates rows for a batch of queries. Its rounding is bounded in
// bounded_product.h, so multiplications and additions may be fused; what it nominates is re-scored
// canonically.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "cpu/runtime/highway_config.h"
#include "cpu/scan/scan_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/scan/gemm_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/runtime/floats-inl.h"
#include "cpu/scan/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
constexpr Floats kHalfFloats;  // of no use
#else
constexpr hn::Half<Floats> kHalfFloats;
#endif
using HalfVector = hn::VFromD<std::remove_const_t<decltype(kHalfFloats)>>;

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

// Products by row: which rows of a group may be nearest to each query of a panel. Queries lie side by
// side, so that nothing is compared across the lanes of a vector.
#include <bit>
#include <cstring>
#include <limits>

#include "cpu/runtime/highway_config.h"
#include "cpu/scan/bf16_panels.h"
#include "cpu/scan/scan_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/scan/group_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/runtime/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Positions are floats, which are exact: a block has few rows.
void nearest_rows(const float* HWY_RESTRICT dots, const float* HWY_RESTRICT halves,
                  const float* HWY_RESTRICT norms, std::size_t n, const float* HWY_RESTRICT slacks,
                  std::size_t width, std::uint32_t* HWY_RESTRICT nearest) {
  for (std::size_t q = 0; q < width; q += kLanes) {
    const FloatVector slack = hn::LoadU(kFloats, slacks + q);
    FloatVector least = hn::Set(kFloats, std::numeric_limits<float>::infinity());
    FloatVector at = hn::Zero(kFloats);
    for (std::size_t r = 0; r < n; ++r) {
      const FloatVector near = hn::MulAdd(slack, hn::Set(kFloats, norms[r]),
                                          hn::LoadU(kFloats, dots + r * width + q));
      const FloatVector low = hn::Sub(hn::Set(kFloats, halves[r]), near);
      at = hn::IfThenElse(hn::Lt(low, least), hn::Set(kFloats, static_cast<float>(r)), at);
      least = hn::Min(least, low);
    }
    float rows[kLanes];
    hn::StoreU(at, kFloats, rows);
    for (std::size_t i = 0; i < kLanes; ++i) nearest[q + i] = static_cast<std::uint32_t>(rows[i]);
  }
}

std::size_t near_rows(const float* HWY_RESTRICT dots, const float* HWY_RESTRICT halves,
                      const float* HWY_RESTRICT norms, std::size_t n,
                      const float* HWY_RESTRICT slacks, const float* HWY_RESTRICT offsets,
                      std::size_t width, std::uint32_t* HWY_RESTRICT out) {
  std::size_t found = 0;
  for (std::size_t r = 0; r < n; ++r) {
    const FloatVector norm = hn::Set(kFloats, norms[r]), half = hn::Set(kFloats, halves[r]);
    for (std::size_t at = r * width, q = 0; q < width; q += kLanes) {
      const FloatVector near = hn::MulAdd(hn::LoadU(kFloats, slacks + q), norm,
                                          hn::LoadU(kFloats, dots + at + q));
      const auto is_near = hn::Ge(near, hn::Add(half, hn::LoadU(kFloats, offsets + q)));
      if (HWY_LIKELY(hn::AllFalse(kFloats, is_near))) continue;
      std::uint8_t bytes[8] = {};
      hn::StoreMaskBits(kFloats, is_near, bytes);
      std::uint32_t bits = bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8;
      for (; bits != 0; bits &= bits - 1) {
        out[found++] = static_cast<std::uint32_t>(at + q) +
                       static_cast<std::uint32_t>(std::countr_zero(bits));
      }
    }
  }
  return found;
}

}  // namespace

void fill_groups(ScanKernels& kernels) {
  kernels.gemm.nearest_rows = nearest_rows;
  kernels.gemm.near_rows = near_rows;
}

#if HWY_TARGET == HWY_AVX3
void fill_groups_vbmi(ScanKernels& kernels) {
  fill_groups(kernels);
  use_bf16(kernels.gemm);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

TargetFills<ScanKernels> group_fills() {
  return WARPLITE_EACH_TARGET_AND_VBMI(fill_groups, fill_groups_vbmi);
}

}  // namespace warplite::cpu
#endif

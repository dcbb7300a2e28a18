// The shape of the product of one SIMD target, and what turns its tiles.
// Included once per target, after hwy/highway.h.
#if defined(WARPLITE_GEMM) == defined(HWY_TARGET_TOGGLE)
#ifdef WARPLITE_GEMM
#undef WARPLITE_GEMM
#else
#define WARPLITE_GEMM
#endif

#include <cstddef>

#include <hwy/highway.h>

#include "cpu/runtime/floats-inl.h"
#include "cpu/scan/scan_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {

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
constexpr std::size_t kStrip = GemmKernels::kStrip;

// to[i * after + v] = from[v * apart + i], i < n, v < width
HWY_INLINE void transpose(const float* HWY_RESTRICT from, std::size_t apart, std::size_t n,
                          std::size_t width, float* HWY_RESTRICT to, std::size_t after) {
  std::size_t v = 0;
#if HWY_TARGET != HWY_SCALAR
  namespace hn = hwy::HWY_NAMESPACE;
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

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#endif

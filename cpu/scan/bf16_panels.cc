#include "cpu/scan/bf16_panels.h"

#include "cpu/runtime/instruction_sets.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>

#include <algorithm>

#include "cpu/runtime/highway_config.h"

#include <hwy/base.h>

// GCC 12 says so of its own intrinsics.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define WARPLITE_BF16 __attribute__((target("avx512f,avx512bw,avx512bf16")))

namespace warplite::cpu {
namespace {

constexpr std::size_t kLanes = 16, kRows = 2 * kLanes, kStrip = GemmKernels::kStrip;

WARPLITE_BF16 inline __m512bh pairs(__m512 bits) { return (__m512bh)_mm512_castps_si512(bits); }

// As multiply_strips has it (gemm_kernels.cc), with pairs of elements.
template <std::size_t kVectors, std::size_t kAtOnce>
WARPLITE_BF16 void multiply(const float* HWY_RESTRICT panel, const float* HWY_RESTRICT tile,
                            std::size_t depth, bool, float* HWY_RESTRICT dots, std::size_t,
                            Ahead ahead) {
  constexpr std::size_t kQueries = kVectors * kLanes;
  const bool asks = ahead.bytes != nullptr;
  const std::byte* soon = asks ? ahead.bytes : reinterpret_cast<const std::byte*>(panel);
  const std::size_t step = asks ? ahead.each * kAtOnce : 0;
  for (std::size_t r = 0; r < kRows; r += kAtOnce) {
    __m512 sums[kAtOnce][kVectors];
    HWY_UNROLL(16)
    for (std::size_t j = 0; j < kAtOnce; ++j) {
      HWY_UNROLL(2)
      for (std::size_t v = 0; v < kVectors; ++v) sums[j][v] = _mm512_setzero_ps();
    }
    const float* HWY_RESTRICT x = panel;
    for (std::size_t at = 0; at < depth; at += kStrip) {
      const float* HWY_RESTRICT row = tile + at * kRows + r * kStrip;
      const float* const end = row + std::min(depth - at, kStrip);
      for (; row != end; ++row, x += kQueries, soon += step) {
        __builtin_prefetch(soon, 0, 2);
        __m512bh queries[kVectors];
        HWY_UNROLL(2)
        for (std::size_t v = 0; v < kVectors; ++v) queries[v] = pairs(_mm512_loadu_ps(x + v * kLanes));
        HWY_UNROLL(16)
        for (std::size_t j = 0; j < kAtOnce; ++j) {
          const __m512bh y = pairs(_mm512_set1_ps(row[j * kStrip]));
          HWY_UNROLL(2)
          for (std::size_t v = 0; v < kVectors; ++v) {
            sums[j][v] = _mm512_dpbf16_ps(sums[j][v], queries[v], y);
          }
        }
      }
    }
    HWY_UNROLL(16)
    for (std::size_t j = 0; j < kAtOnce; ++j) {
      HWY_UNROLL(2)
      for (std::size_t v = 0; v < kVectors; ++v) {
        _mm512_storeu_ps(dots + (r + j) * kQueries + v * kLanes, sums[j][v]);
      }
    }
  }
}

// Strips end with zeros up to a pair of vectors.
WARPLITE_BF16 void narrow_tile(const float* tile, std::size_t dim, float* to) {
  for (std::size_t at = 0; at < dim; at += kStrip, tile += kRows * kStrip) {
    float* const strip = to + at / (2 * kStrip) * kRows * kStrip + at % (2 * kStrip) / 2;
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t i = 0; i < std::min(dim - at, kStrip); i += 2 * kLanes) {
        const float* const from = tile + r * kStrip + i;
        const __m512bh both =
            _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + kLanes), _mm512_loadu_ps(from));
        _mm512_storeu_si512(strip + r * kStrip + i / 2, (__m512i)both);
      }
    }
  }
}

WARPLITE_BF16 inline __m512i narrowed(const float* from) {
  return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from)));
}

template <std::size_t kVectors>
WARPLITE_BF16 void narrow_panel(const float* panel, std::size_t dim, float* to) {
  constexpr std::size_t kQueries = kVectors * kLanes;
  for (std::size_t i = 0; i < dim; i += 2, to += kQueries) {
    for (std::size_t q = 0; q < kQueries; q += kLanes) {
      const float* const from = panel + i * kQueries + q;
      __m512i both = narrowed(from);
      if (i + 1 < dim) both = _mm512_or_si512(both, _mm512_slli_epi32(narrowed(from + kQueries), 16));
      _mm512_storeu_si512(to + q, both);
    }
  }
}

}  // namespace

void use_bf16(GemmKernels& gemm) {
  if (!instruction_sets().bf16) return;
  gemm.few_by_row = {2 * kLanes, true, true, multiply<2, 8>, narrow_tile, narrow_panel<2>};
  gemm.fewer_by_row = {kLanes, true, true, multiply<1, 16>, narrow_tile, narrow_panel<1>};
}

}  // namespace warplite::cpu
#endif

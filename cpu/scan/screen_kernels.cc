// The float32 arithmetic that screens rows of real elements for a few queries. Its rounding
// is bounded in screen.h, so multiplications and additions may be fused and sums taken in
// any order; what it lets pass is scored canonically.
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/runtime/highway_config.h"
#include "cpu/scan/scan_kernels.h"
#include "cpu/scan/score_rows.h"
#include "cpu/scan/screen.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/scan/screen_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/runtime/floats-inl.h"
#include "cpu/runtime/simd_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kStep = 2 * kLanes;

// The sums of one row, in two chains each. `low` is what ScreenRows writes.
struct SquaredDifferences {
  FloatVector sums[2];
  HWY_INLINE SquaredDifferences() : sums{hn::Zero(kFloats), hn::Zero(kFloats)} {}
  HWY_INLINE void add(std::size_t chain, FloatVector x, FloatVector y) {
    const FloatVector t = hn::Sub(x, y);
    sums[chain] = hn::MulAdd(t, t, sums[chain]);
  }
  HWY_INLINE float low(const ScreenQuery&) const { return total(sums); }

  static HWY_INLINE float total(const FloatVector* sums) {
    return hn::GetLane(hn::SumOfLanes(kFloats, hn::Add(sums[0], sums[1])));
  }
};

struct AbsoluteDifferences : SquaredDifferences {
  HWY_INLINE AbsoluteDifferences() : SquaredDifferences() {}
  HWY_INLINE void add(std::size_t chain, FloatVector x, FloatVector y) {
    sums[chain] = hn::Add(sums[chain], hn::Abs(hn::Sub(x, y)));
  }
};

struct Products {
  FloatVector dots[2], squares[2];
  HWY_INLINE Products()
      : dots{hn::Zero(kFloats), hn::Zero(kFloats)},
        squares{hn::Zero(kFloats), hn::Zero(kFloats)} {}
  HWY_INLINE void add(std::size_t chain, FloatVector x, FloatVector y) {
    dots[chain] = hn::MulAdd(x, y, dots[chain]);
    squares[chain] = hn::MulAdd(y, y, squares[chain]);
  }
  HWY_INLINE float low(const ScreenQuery& query) const {
    const float norm = std::sqrt(SquaredDifferences::total(squares));
    return -(SquaredDifferences::total(dots) + query.slack * norm);
  }
};

struct Cosines : Products {
  HWY_INLINE Cosines() : Products() {}
  HWY_INLINE float low(const ScreenQuery&) const {
    const float square = SquaredDifferences::total(squares);
    if (!(square >= Screen::kSmallestSquare && square <= Screen::kLargestSquare)) {
      return -std::numeric_limits<float>::infinity();
    }
    return -SquaredDifferences::total(dots) / std::sqrt(square);
  }
};

template <class Element, class Sums>
HWY_INLINE float screen_row(const ScreenQuery& query, const std::byte* row,
                            const std::byte* soon) {
  Sums sums;
  const std::size_t whole = query.dim / kStep * kStep;
  for (std::size_t i = 0; i < whole; i += kStep) {
    if (i * Element::kBytes % kBurst == 0) ask_for(soon + i * Element::kBytes);
    HWY_UNROLL(2)
    for (std::size_t chain = 0; chain < 2; ++chain) {
      const std::size_t at = i + chain * kLanes;
      sums.add(chain, hn::LoadU(kFloats, query.floats + at),
               Element::load_floats(kFloats, row + at * Element::kBytes));
    }
  }
  HWY_UNROLL(2)
  for (std::size_t chain = 0; chain < 2; ++chain) {
    const std::size_t at = whole + chain * kLanes;
    if (at >= query.dim) break;
    const std::size_t bytes = at * Element::kBytes;
    if (bytes % kBurst < kLanes * Element::kBytes) ask_for(soon + bytes);
    sums.add(chain, hn::LoadU(kFloats, query.floats + at),
             Element::load_first_floats(kFloats, row + bytes, query.dim - at));
  }
  return sums.low(query);
}

template <class Element, class Sums>
void screen_rows(const ScreenQuery& query, const std::byte* base, const std::uint32_t* rows,
                 std::size_t n, float* lows) {
  const std::size_t ahead = rows_ahead(query.stride);
  for (std::size_t i = 0; i < n; ++i) {
    lows[i] = screen_row<Element, Sums>(query, base + rows[i] * query.stride,
                                        row_soon(query.stride, base, rows, n, i, ahead));
  }
}

template <class Element>
void fill(ScreenRows* screens) {
  screens[static_cast<int>(Distance::kL2)] = screen_rows<Element, SquaredDifferences>;
  screens[static_cast<int>(Distance::kL1)] = screen_rows<Element, AbsoluteDifferences>;
  screens[static_cast<int>(Distance::kInnerProduct)] = screen_rows<Element, Products>;
  screens[static_cast<int>(Distance::kCosine)] = screen_rows<Element, Cosines>;
}

}  // namespace

void fill_screen(ScanKernels& kernels) {
  for_each_element_type([&]<ElementType kType>() {
    if constexpr (is_real(kType)) fill<Elements<kType>>(kernels.screens[static_cast<int>(kType)]);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

TargetFills<ScanKernels> screen_fills() { return WARPLITE_EACH_TARGET(fill_screen); }

}  // namespace warplite::cpu
#endif

// Distances to 16 rows at a time, coordinate by coordinate, and the tests that pass over rows.
#include "cpu/metric/kernels.h"

#include <bit>

#include "cpu/runtime/highway_config.h"
#include "cpu/runtime/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/metric/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
constexpr std::size_t kLanes = hn::MaxLanes(Tag());
constexpr std::size_t kVectors = 16 / kLanes;

template <bool kSquares>
HWY_INLINE hn::VFromD<Tag> add(hn::VFromD<Tag> sum, hn::VFromD<Tag> difference) {
  if constexpr (kSquares) return hn::MulAdd(difference, difference, sum);
  return hn::Add(sum, hn::Abs(difference));
}

template <bool kSquares>
void group_distances(const float* point, const float* rows, std::size_t dim, float* out) {
  const Tag tag;
  hn::VFromD<Tag> even[kVectors], odd[kVectors];  // shorter chains of additions
  HWY_UNROLL(4)
  for (std::size_t v = 0; v < kVectors; ++v) even[v] = odd[v] = hn::Zero(tag);
  std::size_t d = 0;
  for (; d + 2 <= dim; d += 2, rows += 32) {
    const auto first = hn::Set(tag, point[d]), second = hn::Set(tag, point[d + 1]);
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors; ++v) {
      even[v] = add<kSquares>(even[v], hn::Sub(first, hn::Load(tag, rows + v * kLanes)));
      odd[v] = add<kSquares>(odd[v], hn::Sub(second, hn::Load(tag, rows + 16 + v * kLanes)));
    }
  }
  const auto last = d < dim ? hn::Set(tag, point[d]) : hn::Zero(tag);
  HWY_UNROLL(4)
  for (std::size_t v = 0; v < kVectors; ++v) {
    if (d < dim) even[v] = add<kSquares>(even[v], hn::Sub(last, hn::Load(tag, rows + v * kLanes)));
    const auto sum = hn::Add(even[v], odd[v]);
    hn::StoreU(kSquares ? hn::Sqrt(sum) : sum, tag, out + v * kLanes);
  }
}

template <bool kSquares>
void distances(const float* point, const float* rows, std::size_t dim, std::size_t groups,
               float* out) {
  for (std::size_t i = 0; i < groups; ++i) {
    group_distances<kSquares>(point, rows + i * dim * 16, dim, out + i * 16);
  }
}

template <class Mask>
HWY_INLINE std::size_t write_positions(Mask mask, std::uint32_t first, std::uint32_t* out) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(Tag(), mask, bytes);
  std::uint32_t bits = bytes[0] | (std::uint32_t{bytes[1]} << 8);
  std::size_t n = 0;
  for (; bits != 0; bits &= bits - 1) {
    out[n++] = first + static_cast<std::uint32_t>(std::countr_zero(bits));
  }
  return n;
}

std::size_t touched(const BallTest& ball, const float* from, const float* cover,
                    const float* cosines, std::size_t n, std::uint32_t* out) {
  const Tag tag;
  const auto share = hn::Set(tag, ball.share), margin = hn::Set(tag, ball.margin);
  const auto radius = hn::Set(tag, ball.radius), cosine = hn::Set(tag, ball.cosine);
  const auto square = hn::Set(tag, ball.square), whole = hn::Set(tag, ball.whole);
  const auto zero = hn::Zero(tag);
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const auto covered = hn::LoadU(tag, cover + i);
    const auto sum = hn::MulAdd(covered, cosine,
                                hn::MulAdd(radius, hn::LoadU(tag, cosines + i), margin));
    const auto near = hn::Le(hn::Mul(hn::LoadU(tag, from + i), share), sum);
    const auto all = hn::Ge(hn::MulAdd(covered, covered, square), whole);
    const auto touches = hn::And(hn::Or(near, all), hn::Ge(covered, zero));
    if (hn::AllFalse(tag, touches)) continue;
    count += write_positions(touches, static_cast<std::uint32_t>(i), out + count);
  }
  return count;
}

std::size_t between(const float* values, float low, float high, std::size_t n, std::uint32_t first,
                    std::uint32_t* out) {
  const Tag tag;
  const auto least = hn::Set(tag, low), most = hn::Set(tag, high);
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const auto value = hn::LoadU(tag, values + i);
    const auto inside = hn::And(hn::Ge(value, least), hn::Le(value, most));
    if (hn::AllFalse(tag, inside)) continue;
    count += write_positions(inside, first + static_cast<std::uint32_t>(i), out + count);
  }
  return count;
}

}  // namespace

void fill_metric(MetricKernels& kernels) {
  kernels.distances[0] = distances<true>;
  kernels.distances[1] = distances<false>;
  kernels.touched = touched;
  kernels.between = between;
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

const MetricKernels& metric_kernels() {
  static const KernelTables<MetricKernels> tables{WARPLITE_EACH_TARGET(fill_metric)};
  return tables.active();
}

}  // namespace warplite::cpu
#endif

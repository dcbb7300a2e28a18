// The rounds of a rotation (compute/host/rotation.h): numbers of a vector meet in its lanes, then those
// of eight vectors at a time, as the definition brings them together.
#include <algorithm>

#include "compute/host/rotation.h"
#include "cpu/host/kernels.h"
#include "cpu/runtime/highway_config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/host/rotation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void fill_rotation(compute::HostKernels&) {}  // one lane: the definition

#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, compute::HostKernels::kLeastTransform>;
constexpr Floats kFloats;
using FloatVector = hn::VFromD<Floats>;
constexpr std::size_t kLanes = hn::MaxLanes(kFloats), kVectors = 8;

// Steps of H in the lanes of vectors. A lane takes its own number or that less than 0, which is a
// product without rounding and may be fused, and adds its partner's.
class LaneSteps {
 public:
  LaneSteps() {
    for (std::size_t step = 0; step < kSteps; ++step) {
      HWY_ALIGN float signs[kLanes];
      for (std::size_t i = 0; i < kLanes; ++i) signs[i] = (i >> step & 1) != 0 ? -1.0f : 1.0f;
      signs_[step] = hn::Load(kFloats, signs);
    }
  }

  HWY_INLINE FloatVector operator()(FloatVector x) const {
    x = hn::MulAdd(x, signs_[0], hn::Reverse2(kFloats, x));
    x = hn::MulAdd(x, signs_[1], hn::Shuffle1032(x));
    if constexpr (kLanes > 4) x = hn::MulAdd(x, signs_[2], hn::SwapAdjacentBlocks(x));
    if constexpr (kLanes > 8) x = hn::MulAdd(x, signs_[3], hn::ConcatLowerUpper(kFloats, x, x));
    return x;
  }

 private:
  static constexpr std::size_t kSteps = kLanes == 16 ? 4 : kLanes == 8 ? 3 : 2;
  FloatVector signs_[kSteps];
};

// Steps of H of vectors that are there in full.
template <std::size_t kHalf = 1, std::size_t kCount>
HWY_INLINE void steps(FloatVector (&x)[kCount]) {
  if constexpr (kHalf < kCount) {
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < kCount / 2; ++i) {
      const std::size_t at = i / kHalf * 2 * kHalf + i % kHalf;
      const FloatVector a = x[at], b = x[at + kHalf];
      x[at] = hn::Add(a, b);
      x[at + kHalf] = hn::Sub(a, b);
    }
    steps<2 * kHalf>(x);
  }
}

template <std::size_t kCount>
HWY_INLINE void store(const FloatVector (&x)[kCount], FloatVector scale, float* to,
                      std::size_t apart) {
  HWY_UNROLL(8)
  for (std::size_t j = 0; j < kCount; ++j)
    hn::StoreU(hn::Mul(x[j], scale), kFloats, to + j * apart);
}

template <class Tag>
HWY_INLINE hn::VFromD<Tag> flipped(Tag tag, const std::uint32_t* flips, const float* from) {
  const hn::RebindToUnsigned<Tag> words;
  return hn::Xor(hn::LoadU(tag, from), hn::BitCast(tag, hn::LoadU(words, flips)));
}

// Elements that the round does not transform.
void flip(std::size_t count, const std::uint32_t* HWY_RESTRICT flips, float* HWY_RESTRICT vector) {
  constexpr hn::CappedTag<float, 1> kOne;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(flipped(kFloats, flips + i, vector + i), kFloats, vector + i);
  }
  for (; i < count; ++i) hn::StoreU(flipped(kOne, flips + i, vector + i), kOne, vector + i);
}

// Flips, and the steps of kCount vectors that follow one another.
template <std::size_t kCount>
void first_steps(std::size_t n, const std::uint32_t* HWY_RESTRICT flips, float scale,
                 float* HWY_RESTRICT vector) {
  const LaneSteps lane_steps;
  const FloatVector scales = hn::Set(kFloats, scale);
  for (std::size_t at = 0; at < n; at += kCount * kLanes) {
    FloatVector x[kCount];
    HWY_UNROLL(8)
    for (std::size_t j = 0; j < kCount; ++j) {
      const std::size_t from = at + j * kLanes;
      x[j] = lane_steps(flipped(kFloats, flips + from, vector + from));
    }
    steps(x);
    store(x, scales, vector + at, kLanes);
  }
}

// The steps of kCount numbers each that are `half` apart.
template <std::size_t kCount>
void more_steps(std::size_t n, std::size_t half, float scale, float* HWY_RESTRICT vector) {
  const FloatVector scales = hn::Set(kFloats, scale);
  for (float* part = vector; part != vector + n; part += kCount * half) {
    for (float* at = part; at != part + half; at += kLanes) {
      FloatVector x[kCount];
      HWY_UNROLL(8)
      for (std::size_t j = 0; j < kCount; ++j) x[j] = hn::LoadU(kFloats, at + j * half);
      steps(x);
      store(x, scales, at, half);
    }
  }
}

// The scale comes with the last steps.
void transform(std::size_t n, const std::uint32_t* flips, float scale, float* vector) {
  const auto scale_at = [&](std::size_t done) { return done == n ? scale : 1.0f; };
  std::size_t done = std::min<std::size_t>(n, kVectors * kLanes);
  switch (done / kLanes) {
    case 1: first_steps<1>(n, flips, scale_at(done), vector); break;
    case 2: first_steps<2>(n, flips, scale_at(done), vector); break;
    case 4: first_steps<4>(n, flips, scale_at(done), vector); break;
    default: first_steps<kVectors>(n, flips, scale_at(done), vector);
  }
  for (; n / done >= kVectors; done *= kVectors) {
    more_steps<kVectors>(n, done, scale_at(kVectors * done), vector);
  }
  if (n / done == 4) more_steps<4>(n, done, scale, vector);
  if (n / done == 2) more_steps<2>(n, done, scale, vector);
}

void turn(const compute::RotationRound& round, float* vector) {
  const std::uint32_t first = round.first, end = first + round.n;
  flip(first, round.flips, vector);
  flip(round.dim - end, round.flips + end, vector + end);
  transform(round.n, round.flips + first, round.scale, vector + first);
}

}  // namespace

void fill_rotation(compute::HostKernels& kernels) { kernels.rotation_round = turn; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

TargetFills<compute::HostKernels> rotation_fills() { return WARPLITE_EACH_TARGET(fill_rotation); }

}  // namespace warplite::cpu
#endif

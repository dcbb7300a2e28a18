// The widest vector of float32 of one SIMD target, 16 elements at most.
// Included once per target, after hwy/highway.h.
#if defined(WARPLITE_FLOATS) == defined(HWY_TARGET_TOGGLE)
#ifdef WARPLITE_FLOATS
#undef WARPLITE_FLOATS
#else
#define WARPLITE_FLOATS
#endif

#include <cstddef>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {

using Floats = hwy::HWY_NAMESPACE::CappedTag<float, 16>;
using FloatVector = hwy::HWY_NAMESPACE::VFromD<Floats>;
constexpr Floats kFloats;
constexpr std::size_t kLanes = hwy::HWY_NAMESPACE::MaxLanes(kFloats);

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#endif

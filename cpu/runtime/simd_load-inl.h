// Loads for every SIMD target: included once per target, after hwy/highway.h.
#if defined(WARPLITE_SIMD_LOAD) == defined(HWY_TARGET_TOGGLE)
#ifdef WARPLITE_SIMD_LOAD
#undef WARPLITE_SIMD_LOAD
#else
#define WARPLITE_SIMD_LOAD
#endif

#include <cstddef>
#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {

// Rows need no alignment; the one-lane target dereferences its pointer.
template <class Tag>
HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Tag> load(Tag tag, const std::byte* from) {
  using T = hwy::HWY_NAMESPACE::TFromD<Tag>;
#if HWY_TARGET == HWY_SCALAR
  T value;
  std::memcpy(&value, from, sizeof value);
  return hwy::HWY_NAMESPACE::Set(tag, value);
#else
  return hwy::HWY_NAMESPACE::LoadU(tag, reinterpret_cast<const T*>(from));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#endif

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

#include "core/element_type.h"

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

// Vectors of float32 from stored elements: one for each type of numbers.
template <ElementType kType>
struct Elements;

template <>
struct Elements<ElementType::kFloat32> {
  static constexpr std::size_t kBytes = 4;
  template <class Floats>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> load_floats(Floats floats,
                                                                   const std::byte* from) {
    return load(floats, from);
  }
};

template <>
struct Elements<ElementType::kFloat16> {
  static constexpr std::size_t kBytes = 2;
  template <class Floats>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> load_floats(Floats floats,
                                                                   const std::byte* from) {
    // Clang finds two ways of loading a few halves on Arm, both Highway's.
    const hwy::HWY_NAMESPACE::Rebind<hwy::float16_t, Floats> halves;
    const hwy::HWY_NAMESPACE::Rebind<std::uint16_t, Floats> words;
    return hwy::HWY_NAMESPACE::PromoteTo(
        floats, hwy::HWY_NAMESPACE::BitCast(halves, load(words, from)));
  }
};

template <>
struct Elements<ElementType::kBFloat16> {
  static constexpr std::size_t kBytes = 2;
  template <class Floats>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> load_floats(Floats floats,
                                                                   const std::byte* from) {
    const hwy::HWY_NAMESPACE::Rebind<std::uint32_t, Floats> words;
    const hwy::HWY_NAMESPACE::Rebind<std::uint16_t, Floats> upper;
    return hwy::HWY_NAMESPACE::BitCast(
        floats, hwy::HWY_NAMESPACE::ShiftLeft<16>(
                    hwy::HWY_NAMESPACE::PromoteTo(words, load(upper, from))));
  }
};

template <>
struct Elements<ElementType::kInt8> {
  static constexpr std::size_t kBytes = 1;
  template <class Floats>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> load_floats(Floats floats,
                                                                   const std::byte* from) {
    const hwy::HWY_NAMESPACE::Rebind<std::int32_t, Floats> ints;
    const hwy::HWY_NAMESPACE::Rebind<std::int8_t, Floats> bytes;
    return hwy::HWY_NAMESPACE::ConvertTo(floats,
                                         hwy::HWY_NAMESPACE::PromoteTo(ints, load(bytes, from)));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#endif

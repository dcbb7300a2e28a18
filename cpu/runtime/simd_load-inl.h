// Loads for every SIMD target: included once per target, after hwy/highway.h.
#if defined(WARPLITE_SIMD_LOAD) == defined(HWY_TARGET_TOGGLE)
#ifdef WARPLITE_SIMD_LOAD
#undef WARPLITE_SIMD_LOAD
#else
#define WARPLITE_SIMD_LOAD
#endif

#include <cstddef>
#include <cstdint>
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

// The first n elements, fewer than there are lanes perhaps, and zeros in other lanes. Reads nothing
// behind them. A copy that is padded is slow: a load has to wait for the stores before it, which are
// narrower, some 15 ns a row.
template <class Tag>
HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Tag> load_first(Tag tag, const std::byte* from, std::size_t n) {
  using T = hwy::HWY_NAMESPACE::TFromD<Tag>;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  // AVX2 leaves out words, not halves of them.
  if constexpr (HWY_TARGET <= HWY_AVX3 || sizeof(T) >= 4) {
    return hwy::HWY_NAMESPACE::MaskedLoad(hwy::HWY_NAMESPACE::FirstN(tag, n), tag,
                                          reinterpret_cast<const T*>(from));
  }
#endif
  constexpr std::size_t kWhole = hwy::HWY_NAMESPACE::MaxLanes(tag);
  if (n >= kWhole) return load(tag, from);
  std::byte padded[kWhole * sizeof(T)] = {};
  std::memcpy(padded, from, n * sizeof(T));
  return load(tag, padded);
}

// What elements are stored as, and vectors of float32 made of them: one for each type of numbers.
template <ElementType kType>
struct Elements;

// Loads whole vectors, or the first elements of one, as load_first() does.
template <class Element>
struct FloatLoads {
  template <class Floats>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> load_floats(Floats floats,
                                                                   const std::byte* from) {
    return Element::widen(floats, load(stored(floats), from));
  }
  template <class Floats>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> load_first_floats(Floats floats,
                                                                         const std::byte* from,
                                                                         std::size_t n) {
    return Element::widen(floats, load_first(stored(floats), from, n));
  }

 private:
  template <class Floats>
  static constexpr auto stored(Floats) {
    return hwy::HWY_NAMESPACE::Rebind<typename Element::Stored, Floats>();
  }
};

template <>
struct Elements<ElementType::kFloat32> : FloatLoads<Elements<ElementType::kFloat32>> {
  using Stored = float;
  static constexpr std::size_t kBytes = 4;
  template <class Floats, class Vector>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> widen(Floats, Vector stored) {
    return stored;
  }
};

template <>
struct Elements<ElementType::kFloat16> : FloatLoads<Elements<ElementType::kFloat16>> {
  // Clang finds two ways of loading a few halves on Arm, both Highway's.
  using Stored = std::uint16_t;
  static constexpr std::size_t kBytes = 2;
  template <class Floats, class Vector>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> widen(Floats floats, Vector stored) {
    const hwy::HWY_NAMESPACE::Rebind<hwy::float16_t, Floats> halves;
    return hwy::HWY_NAMESPACE::PromoteTo(floats, hwy::HWY_NAMESPACE::BitCast(halves, stored));
  }
};

template <>
struct Elements<ElementType::kBFloat16> : FloatLoads<Elements<ElementType::kBFloat16>> {
  using Stored = std::uint16_t;
  static constexpr std::size_t kBytes = 2;
  template <class Floats, class Vector>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> widen(Floats floats, Vector stored) {
    const hwy::HWY_NAMESPACE::Rebind<std::uint32_t, Floats> words;
    return hwy::HWY_NAMESPACE::BitCast(floats, hwy::HWY_NAMESPACE::ShiftLeft<16>(
                                                   hwy::HWY_NAMESPACE::PromoteTo(words, stored)));
  }
};

template <>
struct Elements<ElementType::kInt8> : FloatLoads<Elements<ElementType::kInt8>> {
  using Stored = std::int8_t;
  static constexpr std::size_t kBytes = 1;
  template <class Floats, class Vector>
  static HWY_INLINE hwy::HWY_NAMESPACE::VFromD<Floats> widen(Floats floats, Vector stored) {
    const hwy::HWY_NAMESPACE::Rebind<std::int32_t, Floats> ints;
    return hwy::HWY_NAMESPACE::ConvertTo(floats, hwy::HWY_NAMESPACE::PromoteTo(ints, stored));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#endif

// Elements of vectors of numbers on the host: as float32, which is exact for each type, and the
// nearest element to a float32. Memory needs no alignment.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "core/bfloat16.h"
#include "core/element_type.h"
#include "core/half.h"

namespace warplite {

// One for each type of numbers: `Word`, an element's bits; `kInfinity`, those of infinity, where there
// is one; `kLargest`, no element is larger.
template <ElementType kType>
struct Element;

template <>
struct Element<ElementType::kFloat32> {
  using Word = std::uint32_t;
  static constexpr Word kInfinity = 0x7f800000;
  static constexpr float kLargest = std::numeric_limits<float>::max();
  static float value(Word word) { return std::bit_cast<float>(word); }
  static Word nearest(float value) { return std::bit_cast<Word>(value); }
};

template <>
struct Element<ElementType::kFloat16> {
  using Word = std::uint16_t;
  static constexpr Word kInfinity = 0x7c00;
  static constexpr float kLargest = 65504;
  static float value(Word word) { return half_to_float(word); }
  static Word nearest(float value) { return float_to_half(value); }  // may be infinity
};

template <>
struct Element<ElementType::kBFloat16> {
  using Word = std::uint16_t;
  static constexpr Word kInfinity = 0x7f80;
  static constexpr float kLargest = bfloat16_to_float(0x7f7f);
  static float value(Word word) { return bfloat16_to_float(word); }
  static Word nearest(float value) { return float_to_bfloat16(value); }  // may be infinity
};

template <>
struct Element<ElementType::kInt8> {
  using Word = std::uint8_t;
  static constexpr float kLargest = 128;
  static float value(Word word) { return static_cast<std::int8_t>(word); }
  static Word nearest(float value) {
    return static_cast<Word>(std::lround(std::clamp(value, -128.0f, 127.0f)));
  }
};

template <ElementType kType>
float read_element(const std::byte* from, std::size_t i) {
  typename Element<kType>::Word word;
  std::memcpy(&word, from + i * sizeof word, sizeof word);
  return Element<kType>::value(word);
}
template <ElementType kType>
void write_element(float value, std::byte* to, std::size_t i) {
  const typename Element<kType>::Word word = Element<kType>::nearest(value);
  std::memcpy(to + i * sizeof word, &word, sizeof word);
}

// Calls visit.template operator()<kType>() with the type at hand, if it is one of numbers.
template <std::size_t kRow = 0, typename Visit>
void with_numbers(ElementType type, const Visit& visit) {
  if constexpr (kRow < std::size(kElementTypes)) {
    constexpr ElementType kType = kElementTypes[kRow].type;
    if constexpr (!is_bits(kType)) {
      if (type == kType) return visit.template operator()<kType>();
    }
    with_numbers<kRow + 1>(type, visit);
  }
}

// REQUIRES: a type of numbers
inline float element_at(ElementType type, const std::byte* from, std::size_t i) {
  float value = 0;
  with_numbers(type, [&]<ElementType kType>() { value = read_element<kType>(from, i); });
  return value;
}

// True when no element is NaN or infinite.
bool all_finite(ElementType type, std::span<const std::byte> values);

}  // namespace warplite

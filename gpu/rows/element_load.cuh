// Stored elements in device code: one of each type of numbers, as Element has them on the host.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "core/element_type.h"

namespace warplite::gpu {

template <ElementType kType>
struct DeviceElement;

template <>
struct DeviceElement<ElementType::kFloat32> {
  using Word = float;
  static __device__ float value(Word word) { return word; }
};
template <>
struct DeviceElement<ElementType::kFloat16> {
  using Word = unsigned short;
  static __device__ float value(Word word) { return __half2float(__ushort_as_half(word)); }
};
template <>
struct DeviceElement<ElementType::kBFloat16> {
  using Word = unsigned short;
  static __device__ float value(Word word) {
    return __uint_as_float(static_cast<unsigned>(word) << 16);
  }
};
template <>
struct DeviceElement<ElementType::kInt8> {
  using Word = signed char;
  static __device__ float value(Word word) { return word; }
};

// Element i of a vector of numbers; 0 of bits.
template <std::size_t kRow = 0>
__device__ float element_at(const std::byte* vector, ElementType type, std::uint32_t i) {
  if constexpr (kRow < std::size(kElementTypes)) {
    constexpr ElementType kType = kElementTypes[kRow].type;
    if constexpr (!is_bits(kType)) {
      using Stored = DeviceElement<kType>;
      if (type == kType) {
        return Stored::value(reinterpret_cast<const typename Stored::Word*>(vector)[i]);
      }
    }
    return element_at<kRow + 1>(vector, type, i);
  } else {
    return 0;
  }
}

}  // namespace warplite::gpu

// The list of element types. A new one is a value and a row here, its conversion in core/elements.h,
// and its loads in cpu/runtime/simd_load-inl.h and gpu/rows/element_load.cuh; without one of these
// nothing compiles. GPU kernels include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace warplite {

// Persisted in block headers: values never change.
enum class ElementType : std::uint8_t {
  kFloat32 = 1,
  kFloat16 = 2,
  kInt8 = 3,
  kBit = 4,
  kBFloat16 = 5,  // the upper half of a float32
};

enum class Numbers : std::uint8_t { kReal, kInteger, kBits };

struct ElementInfo {
  ElementType type;
  const char* name;                // as vec_type() says
  const char* declared;            // FLOAT[n]
  std::string_view spellings[3];   // in a declaration, in lower case
  const char* maker;               // the function that makes one
  Numbers numbers;
  unsigned bits;                   // of an element
  unsigned subtype;                // of SQL values; 223 to 225 are the ones that sqlite-vec uses
  const char* accepted;            // what a JSON array of them holds
};

inline constexpr ElementInfo kElementTypes[] = {
    {ElementType::kFloat32, "float32", "FLOAT", {"float", "f32", "float32"}, "vec_f32",
     Numbers::kReal, 32, 223, "numbers in the range of float32"},
    {ElementType::kFloat16, "float16", "FLOAT16", {"float16", "f16"}, "vec_f16",
     Numbers::kReal, 16, 226, "numbers in the range of float16 (below 65520)"},
    {ElementType::kBFloat16, "bfloat16", "BFLOAT16", {"bfloat16", "bf16"}, "vec_bf16",
     Numbers::kReal, 16, 227, "numbers in the range of bfloat16 (below 3.3961775e38)"},
    {ElementType::kInt8, "int8", "INT8", {"int8", "i8"}, "vec_int8",
     Numbers::kInteger, 8, 225, "integers from -128 to 127"},
    {ElementType::kBit, "bit", "BIT", {"bit"}, "vec_bit",
     Numbers::kBits, 1, 224, "zeros and ones"},
};

// A member of the type's row. Constants compared one by one instead of a table that is read: kernels
// of GPUs cannot reach the host's memory.
template <auto kMember, std::size_t kRow = 0>
constexpr auto property(ElementType type) {
  constexpr auto kValue = kElementTypes[kRow].*kMember;
  if constexpr (kRow + 1 < std::size(kElementTypes)) {
    constexpr ElementType kType = kElementTypes[kRow].type;
    if (type != kType) return property<kMember, kRow + 1>(type);
  }
  return kValue;
}

constexpr bool is_real(ElementType type) {
  return property<&ElementInfo::numbers>(type) == Numbers::kReal;
}
constexpr bool is_bits(ElementType type) {
  return property<&ElementInfo::numbers>(type) == Numbers::kBits;
}
// Narrower than float32: float32 values are taken, too, and rounded.
constexpr bool is_narrow_real(ElementType type) {
  return is_real(type) && property<&ElementInfo::bits>(type) < 32;
}

// Bytes of one vector of `dim` elements. REQUIRES: a whole number of bytes.
constexpr std::size_t bytes_per_vector(ElementType type, std::size_t dim) {
  return dim * property<&ElementInfo::bits>(type) / 8;
}

// Calls visit.template operator()<kType>() for every type.
template <std::size_t kRow = 0, typename Visit>
constexpr void for_each_element_type(const Visit& visit) {
  if constexpr (kRow < std::size(kElementTypes)) {
    visit.template operator()<kElementTypes[kRow].type>();
    for_each_element_type<kRow + 1>(visit);
  }
}

}  // namespace warplite

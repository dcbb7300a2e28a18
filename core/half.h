// IEEE binary16, in software: the same bits on every machine.
#pragma once

#include <bit>
#include <cstdint>

namespace warplite {

constexpr float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h & 0x8000u} << 16;
  std::uint32_t exponent = (h >> 10) & 0x1fu;
  std::uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    exponent = 1;
    while ((mantissa & 0x400u) == 0) {
      mantissa <<= 1;
      --exponent;
    }
    mantissa &= 0x3ffu;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Rounds to nearest, ties to even; magnitudes of 65520 and more become infinity.
constexpr std::uint16_t float_to_half(float f) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to infinity
  if (magnitude < 0x33000001u) return sign;             // rounds to zero
  std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const int shift = exponent < -14 ? -exponent - 1 : 13;  // bits dropped
  const std::uint32_t half_ulp = 1u << (shift - 1);
  const std::uint32_t rest = mantissa & ((1u << shift) - 1);
  mantissa >>= shift;
  if (rest > half_ulp || (rest == half_ulp && (mantissa & 1))) ++mantissa;
  const std::uint32_t base = exponent < -14 ? 0 : static_cast<std::uint32_t>(exponent + 14) << 10;
  return static_cast<std::uint16_t>(sign | (base + mantissa));
}

}  // namespace warplite

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

// Rounds to nearest, ties to even; magnitudes of 65520 and more become infinity. Without branches, so that
// compilers do many at once.
constexpr std::uint16_t float_to_half(float f) {
  constexpr std::uint32_t kLeastNormal = 113u << 23, kBias = 112u << 23, kInfinity = 0x7f800000u;
  constexpr std::uint32_t kHalf = 126u << 23;  // 0.5, to which a number is added in steps of the least half
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const bool small = magnitude < kLeastNormal;
  const float sum = std::bit_cast<float>(small ? magnitude : 0u) + std::bit_cast<float>(kHalf);
  const std::uint32_t normal = (magnitude - kBias + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  std::uint32_t half = small ? std::bit_cast<std::uint32_t>(sum) - kHalf : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;
  half = magnitude > kInfinity ? 0x7e00u : half;  // NaN
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | half);
}

}  // namespace warplite

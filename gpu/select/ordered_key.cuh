// Floating-point numbers as unsigned integers of the same order (−0 and +0 apart; no NaN).
#pragma once

#include <cstdint>

namespace warplite::gpu {

__device__ inline std::uint32_t ordered_key(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ inline float value_of_key(std::uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

__device__ inline std::uint64_t ordered_key(double value) {
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(value));
  return bits >> 63 != 0 ? ~bits : bits | 0x8000000000000000u;
}

__device__ inline double value_of_key(std::uint64_t key) {
  return __longlong_as_double(
      static_cast<long long>(key >> 63 != 0 ? key & 0x7fffffffffffffffu : ~key));
}

}  // namespace warplite::gpu

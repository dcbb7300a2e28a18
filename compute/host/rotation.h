// The random rotation of RaBitQ codes: rounds of random signs and Hadamard transforms, so that a
// vector of n elements costs n·log n. Where n is no power of two, a round transforms the first 2^k
// elements, and the next the last 2^k: together they mix all. It follows from n alone.
// Threads: any. The same bits with every compiler and SIMD target.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace warplite::compute {

// Rounds transform the first elements and the last by turns.
inline constexpr std::uint32_t kRotationRounds = 4;

// The signs that a round flips, of elements 64·word … 64·word + 63, the first in the lowest bit:
// splitmix64 of both.
constexpr std::uint64_t rotation_flips(std::uint32_t round, std::uint64_t word) {
  std::uint64_t z = (std::uint64_t{round} << 32 | word) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// How many elements a round transforms, and what it multiplies them with then.
constexpr std::uint32_t rotation_length(std::uint32_t dim) { return std::bit_floor(dim); }
inline float rotation_scale(std::uint32_t length) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(length)));
}

// Rotates `vector`, [dim], in place.
void rotate_at_random(std::uint32_t dim, float* vector);
// The other way.
void rotate_back(std::uint32_t dim, float* vector);

// Flips signs of all elements, and then transforms n of them, a power of two, from `first` on.
struct RotationRound {
  std::uint32_t dim, first, n;
  const std::uint32_t* flips;  // [dim], of which the upper bits may be set
  float scale;                 // 1 / √n
};

// The definition: elements that are 1 apart become their sum and difference, then those that are 2
// apart, 4 …, and then are multiplied by the scale.
void define_round(const RotationRound& round, float* vector);

}  // namespace warplite::compute

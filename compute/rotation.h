// The random rotation of RaBitQ codes: rounds of random signs and Hadamard transforms, so that a
// vector of n elements costs n·log n. Where n is no power of two, a round transforms the first 2^k
// elements, and the next the last 2^k: together they mix all. It follows from n alone.
// Threads: any. The same bits with every compiler and SIMD target.
#pragma once

#include <cstdint>

namespace warplite::compute {

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

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

}  // namespace warplite::compute

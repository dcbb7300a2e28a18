#include "index/ivf/rotation.h"

#include <bit>
#include <cmath>
#include <cstddef>

namespace warplite::index {
namespace {

constexpr int kRounds = 4;

// splitmix64 of (round, word): 64 signs.
std::uint64_t signs(int round, std::uint32_t word) {
  std::uint64_t z =
      (static_cast<std::uint64_t>(round) << 32 | word) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void flip(int round, std::uint32_t dim, float* vector) {
  for (std::uint32_t first = 0; first < dim; first += 64) {
    const std::uint64_t bits = signs(round, first / 64);
    const std::uint32_t n = dim - first < 64 ? dim - first : 64;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t sign = static_cast<std::uint32_t>(bits >> i) << 31;
      vector[first + i] =
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(vector[first + i]) ^ sign);
    }
  }
}

// H / √n of n elements, a power of two.
void transform(std::uint32_t n, float* vector) {
  for (std::uint32_t half = 1; half < n; half *= 2) {
    for (std::uint32_t first = 0; first < n; first += 2 * half) {
      float* const low = vector + first;
      float* const high = low + half;
      for (std::uint32_t i = 0; i < half; ++i) {
        const float a = low[i], b = high[i];
        low[i] = a + b;
        high[i] = a - b;
      }
    }
  }
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
  for (std::uint32_t i = 0; i < n; ++i) vector[i] *= scale;
}

// The elements that a round transforms.
float* part(int round, std::uint32_t dim, std::uint32_t n, float* vector) {
  return round % 2 == 0 ? vector : vector + (dim - n);
}

}  // namespace

void rotate_at_random(std::uint32_t dim, float* vector) {
  const std::uint32_t n = std::bit_floor(dim);
  for (int round = 0; round < kRounds; ++round) {
    flip(round, dim, vector);
    transform(n, part(round, dim, n, vector));
  }
}

void rotate_back(std::uint32_t dim, float* vector) {
  const std::uint32_t n = std::bit_floor(dim);
  for (int round = kRounds; round-- > 0;) {
    transform(n, part(round, dim, n, vector));
    flip(round, dim, vector);
  }
}

}  // namespace warplite::index

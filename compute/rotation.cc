#include "compute/rotation.h"

#include <bit>
#include <cmath>
#include <cstddef>

namespace warplite::compute {
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

void flip(float& number, std::uint32_t sign) {
  number = std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) ^ sign);
}

// Four elements at a time, by the signs that four bits are: a query waits for it.
void flip(int round, std::uint32_t dim, float* vector) {
  struct Signs {
    alignas(16) std::uint32_t of[16][4];
    constexpr Signs() : of{} {
      for (std::uint32_t i = 0; i < 64; ++i) of[i / 4][i % 4] = (i / 4 >> i % 4 & 1) << 31;
    }
  };
  static constexpr Signs kFour;
  for (std::uint32_t first = 0; first < dim; first += 64) {
    std::uint64_t bits = signs(round, first / 64);
    const std::uint32_t end = dim - first < 64 ? dim : first + 64;
    std::uint32_t i = first;
    for (; i + 4 <= end; i += 4, bits >>= 4) {
      for (std::uint32_t j = 0; j < 4; ++j) flip(vector[i + j], kFour.of[bits % 16][j]);
    }
    for (; i < end; ++i, bits >>= 1) flip(vector[i], static_cast<std::uint32_t>(bits) << 31);
  }
}

// The steps of H that bring elements together which lie `half` and 2·`half` apart, of as many each.
void two_steps(std::uint32_t half, float* __restrict p, float* __restrict q, float* __restrict r,
               float* __restrict s) {
  for (std::uint32_t i = 0; i < half; ++i) {
    const float a = p[i] + q[i], b = p[i] - q[i], c = r[i] + s[i], d = r[i] - s[i];
    p[i] = a + c;
    q[i] = b + d;
    r[i] = a - c;
    s[i] = b - d;
  }
}

// H / √n of n elements, a power of two.
void transform(std::uint32_t n, float* vector) {
  // Two at once read and write half as often.
  std::uint32_t half = 1;
  for (; half * 4 <= n; half *= 4) {
    for (float* four = vector; four != vector + n; four += 4 * half) {
      two_steps(half, four, four + half, four + 2 * half, four + 3 * half);
    }
  }
  if (half == n) half = 0;
  float *const low = vector, *const high = vector + half;
  for (std::uint32_t i = 0; i < half; ++i) {
    const float a = low[i], b = high[i];
    low[i] = a + b;
    high[i] = a - b;
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

}  // namespace warplite::compute

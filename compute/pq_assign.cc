// Compiled with -ffp-contract=off: a fused multiply-add would change the bits.
#include <cstddef>
#include <limits>

#include "compute/ivf.h"

namespace warplite::compute {
namespace {

float dot(const float* x, const float* y, std::uint32_t n) {
  float sum = 0;
  for (std::uint32_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

}  // namespace

void reference_pq_assign(const PqAssignWork& work) {
  const std::uint32_t sub_dim = work.dim / work.m;
  for (std::size_t row = 0; row < work.count; ++row) {
    for (std::uint32_t s = 0; s < work.m; ++s) {
      const float* r = work.rows + row * work.dim + s * sub_dim;
      float least = std::numeric_limits<float>::infinity();
      std::uint32_t nearest = 0;
      for (std::uint32_t j = 0; j < work.codewords; ++j) {
        const float* codeword =
            work.codebooks + (std::size_t{s} * work.codewords + j) * sub_dim;
        double square = 0;
        for (std::uint32_t i = 0; i < sub_dim; ++i) {
          square += static_cast<double>(codeword[i]) * static_cast<double>(codeword[i]);
        }
        const float e = static_cast<float>(square / 2) - dot(r, codeword, sub_dim);
        if (e < least) {
          least = e;
          nearest = j;
        }
      }
      work.out[row * work.m + s] = static_cast<std::uint8_t>(nearest);
    }
  }
}

}  // namespace warplite::compute

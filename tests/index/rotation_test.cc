// The random rotation of RaBitQ codes (compute/host/rotation.h).
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "compute/host/rotation.h"
#include "cpu/host/kernels.h"
#include "cpu/runtime/targets.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::testing;

namespace {

// The definition, number by number. Files hold codes of what it gives: it never changes.
class Definition {
 public:
  explicit Definition(std::uint32_t dim) : dim_(dim) {
    while (n_ * 2 <= dim) n_ *= 2;
  }

  void rotate(std::vector<float>& x) const {
    for (std::uint64_t round = 0; round < 4; ++round) {
      flip(round, x);
      transform(round, x);
    }
  }
  void rotate_back(std::vector<float>& x) const {
    for (std::uint64_t round = 4; round-- > 0;) {
      transform(round, x);
      flip(round, x);
    }
  }

 private:
  void flip(std::uint64_t round, std::vector<float>& x) const {
    for (std::uint32_t i = 0; i < dim_; ++i) {
      std::uint64_t z = ((round << 32) + i / 64) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
      z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
      z = (z ^ z >> 27) * 0x94d049bb133111ebu;
      z ^= z >> 31;
      if ((z >> i % 64 & 1) != 0) x[i] = -x[i];
    }
  }

  // Elements first whose numbers differ by 1, then by 2, 4 …, then all by 1 / √n.
  void transform(std::uint64_t round, std::vector<float>& x) const {
    const std::uint32_t first = round % 2 == 0 ? 0 : dim_ - n_;
    for (std::uint32_t bit = 1; bit < n_; bit *= 2) {
      for (std::uint32_t i = 0; i < n_; ++i) {
        if ((i & bit) != 0) continue;
        const float a = x[first + i], b = x[first + i + bit];
        x[first + i] = a + b;
        x[first + i + bit] = a - b;
      }
    }
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(n_)));
    for (std::uint32_t i = 0; i < n_; ++i) x[first + i] *= scale;
  }

  const std::uint32_t dim_;
  std::uint32_t n_ = 1;
};

// One NaN is as good as another.
bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return std::ranges::equal(x, y, [](float a, float b) {
    return (std::isnan(a) && std::isnan(b)) ||
           std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  });
}

// Vectors of usual numbers, of zeros, of so small ones that they lose bits, and of so large ones that
// sums are infinite and then no numbers.
std::vector<std::vector<float>> hard_vectors(std::uint32_t dim) {
  using Limits = std::numeric_limits<float>;
  Normal random(dim);
  std::vector<std::vector<float>> all(7, random.vector(dim));
  std::fill(all[1].begin(), all[1].end(), -0.0f);
  for (float& x : all[2]) x *= Limits::min();
  for (float& x : all[3]) x = std::copysign(Limits::denorm_min(), x);
  for (float& x : all[4]) x = std::copysign(Limits::max(), x);
  all[5][dim / 2] = Limits::infinity();
  all[6][dim / 3] = -Limits::infinity();
  all[6][dim - 1] = Limits::quiet_NaN();
  return all;
}

std::vector<std::uint32_t> dimensions() {
  std::vector<std::uint32_t> all(300);
  std::iota(all.begin(), all.end(), 1u);
  all.insert(all.end(), {512, 768, 960, 1536, 2048, 3072, 4096, 8191, 8192, 65536});
  return all;
}

void check_bits(std::uint32_t dim) {
  CAPTURE(dim);
  const Definition definition(dim);
  for (const std::vector<float>& x : hard_vectors(dim)) {
    std::vector<float> rotated = x, expected = x;
    compute::rotate_at_random(dim, rotated.data());
    definition.rotate(expected);
    CHECK(same_bits(rotated, expected));
    compute::rotate_back(dim, rotated.data());
    definition.rotate_back(expected);
    CHECK(same_bits(rotated, expected));
  }
}

}  // namespace

TEST_CASE("rotation: the bits of its definition, by every SIMD target") {
  compute::set_host_kernels(cpu::host_kernels);
  const std::string before = cpu::simd_target();
  for (const std::string& target : cpu::simd_targets()) {
    CAPTURE(target);
    cpu::force_simd_target(target);
    for (const std::uint32_t dim : dimensions()) check_bits(dim);
  }
  cpu::force_simd_target(before);
}

TEST_CASE("rotation: keeps lengths and angles, in any dimension, and turns back") {
  Normal random(1);
  for (const std::uint32_t dim : {1u, 2u, 3u, 5u, 12u, 64u, 100u, 127u, 128u, 300u, 768u, 960u, 1536u, 3072u, 4096u}) {
    CAPTURE(dim);
    const std::vector<float> x = random.vector(dim), y = random.vector(dim);
    std::vector<float> turned_x = x, turned_y = y;
    compute::rotate_at_random(dim, turned_x.data());
    compute::rotate_at_random(dim, turned_y.data());
    const auto product = [](const std::vector<float>& a, const std::vector<float>& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(), [](double one, double other) {
        return one * other;
      });
    };
    CHECK(std::fabs(product(turned_x, turned_x) / product(x, x) - 1) < 1e-5);
    CHECK(std::fabs(product(turned_x, turned_y) - product(x, y)) < 1e-4 * dim);
    compute::rotate_back(dim, turned_x.data());
    for (std::uint32_t i = 0; i < dim; ++i) CHECK(std::fabs(turned_x[i] - x[i]) < 1e-5f);
  }
}

TEST_CASE("rotation: one element spreads over all") {
  for (const std::uint32_t dim : {64u, 100u, 768u, 1000u}) {
    CAPTURE(dim);
    for (const std::uint32_t at : {0u, dim / 2, dim - 1}) {
      std::vector<float> one(dim);
      one[at] = 1;
      compute::rotate_at_random(dim, one.data());
      float most = 0;
      for (const float x : one) most = std::max(most, std::fabs(x));
      CHECK(most < 6 / std::sqrt(static_cast<float>(dim)));
    }
  }
}

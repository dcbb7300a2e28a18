// The random rotation of RaBitQ codes (compute/rotation.h).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "compute/rotation.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::testing;

TEST_CASE("rotation: keeps lengths and angles, in any dimension, and turns back") {
  Normal random(1);
  for (const std::uint32_t dim : {1u, 2u, 3u, 5u, 12u, 64u, 100u, 127u, 128u, 768u, 1000u}) {
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

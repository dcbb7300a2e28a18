// What is expected of the errors of RaBitQ codes, against codes of random vectors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "compute/rabitq.h"
#include "engine/ivf/code_errors.h"
#include "index/quantization/rabitq.h"

using namespace warplite;
using namespace warplite::engine;

namespace {

constexpr std::uint32_t kDim = 96;
using Vector = std::vector<float>;

double product(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::uint32_t d = 0; d < kDim; ++d) {
    sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
  }
  return sum;
}

// Of length 1.
Vector direction(std::mt19937& random) {
  std::normal_distribution<float> normal;
  Vector vector(kDim);
  for (float& x : vector) x = normal(random);
  const auto length = static_cast<float>(std::sqrt(product(vector, vector)));
  for (float& x : vector) x /= length;
  return vector;
}

struct Estimate {
  double product;
  index::RabitqFactors factors;
};
Estimate estimate(const Vector& row, const Vector& query, std::uint32_t planes) {
  const Vector centroid(kDim);
  std::vector<std::uint8_t> code(std::size_t{planes} * compute::plane_bytes(kDim));
  Estimate of{0, index::encode_rabitq(Distance::kL2, kDim, centroid.data(), row.data(), planes,
                                      index::RabitqTries::kTwice, code.data())};
  Vector coded(kDim);
  index::decode_rabitq(Distance::kL2, kDim, centroid.data(), of.factors, planes, code.data(),
                       coded.data());
  of.product = product(coded, query);
  return of;
}

// How much too far the row seems, as compute/rabitq.h scores it.
double error_of(const Vector& row, const Vector& query, std::uint32_t planes) {
  const double truth = product(row, query);
  const Estimate signs = estimate(row, query, 1), all = estimate(row, query, planes);
  const double error = -2 * (all.product - truth);
  if (planes == 1) return error;
  return std::max(error, -2 * (signs.product - truth) - static_cast<double>(signs.factors.g));
}

}  // namespace

TEST_CASE("code errors: as many rows seem too far by so much as is expected") {
  constexpr int kRows = 4000;
  const double extent = 2 / std::sqrt(static_cast<double>(kDim));
  for (const std::uint32_t planes : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u}) {
    std::mt19937 random(planes);
    std::vector<double> errors;
    for (int i = 0; i < kRows; ++i) {
      const Vector row = direction(random);
      errors.push_back(error_of(row, direction(random), planes) / extent);
    }
    const CodeErrors expected(planes, extent);
    for (const double margin : {0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6}) {
      const auto beyond = std::ranges::count_if(errors, [&](double e) { return e >= margin; });
      CAPTURE(planes);
      CAPTURE(margin);
      CHECK(expected.beyond(margin * extent) ==
            doctest::Approx(static_cast<double>(beyond) / kRows).scale(1).epsilon(0.05));
    }
  }
}

TEST_CASE("code errors: nothing is expected where nothing is known") {
  CHECK(CodeErrors(4, 0).beyond(0) == 0);
  CHECK(CodeErrors(4, 1).beyond(INFINITY) == 0);
}

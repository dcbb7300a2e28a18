// The RaBitQ code of one row: compute/rabitq.h. rabitq_blocks_test.cc has codes as they are kept, and
// tests/conformance their search.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "compute/rabitq.h"
#include "index/quantization/rabitq.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::testing;

namespace {

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

std::vector<double> difference(const std::vector<float>& x, const std::vector<float>& y) {
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    out[i] = static_cast<double>(x[i]) - static_cast<double>(y[i]);
  }
  return out;
}

struct Code {
  index::RabitqFactors factors;
  std::vector<std::uint8_t> planes;
  std::vector<double> signs, direction;  // s and ū
};

Code encode(Distance distance, const std::vector<float>& centroid, const std::vector<float>& row,
            std::uint32_t planes, index::RabitqTries tries = index::RabitqTries::kTwice) {
  const auto dim = static_cast<std::uint32_t>(row.size());
  const std::size_t bytes = compute::plane_bytes(dim);
  Code code;
  code.planes.assign(planes * bytes, 0xaa);
  code.factors =
      index::encode_rabitq(distance, dim, centroid.data(), row.data(), planes, tries, code.planes.data());
  for (std::uint32_t i = 0; i < dim; ++i) {
    unsigned level = 0;
    for (std::uint32_t p = 0; p < planes; ++p) {
      level = level * 2 + ((code.planes[p * bytes + i / 8] >> (i % 8)) & 1);
    }
    code.signs.push_back(level >> (planes - 1) != 0 ? 1 : -1);
    code.direction.push_back(level - ((1u << planes) - 1) / 2.0);
  }
  return code;
}

double relative(double found, double expected) {
  return std::fabs(found - expected) / (std::fabs(expected) + 1e-30);
}

}  // namespace

// Files hold them, and an integrity check makes them again.
TEST_CASE("rabitq: codes stay what they are") {
  constexpr std::uint32_t kDim = 37;
  const auto digest_of = [](index::RabitqTries tries) {
    std::uint32_t state = 1, digest = 0;
    const auto next = [&state] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) / 1e6f;
    };
    const auto add = [&digest](std::uint32_t bits) { digest = (digest ^ bits) * 16777619u; };
    for (const Distance distance : {Distance::kL2, Distance::kInnerProduct}) {
      for (std::uint32_t planes = 1; planes <= compute::kMostPlanes; ++planes) {
        std::vector<float> centroid(kDim), row(kDim);
        for (float& element : centroid) element = next();
        for (float& element : row) element = next() * next();
        const Code code = encode(distance, centroid, row, planes, tries);
        for (const std::uint8_t byte : code.planes) add(byte);
        const index::RabitqFactors& factors = code.factors;
        for (const float factor : {factors.bias, factors.f, factors.g, factors.fine}) {
          add(std::bit_cast<std::uint32_t>(factor));
        }
      }
    }
    return digest;
  };
  CHECK(digest_of(index::RabitqTries::kOnce) == 2875544106u);
  CHECK(digest_of(index::RabitqTries::kTwice) == 2072431217u);
}

// In the square of the sine between a row and its code, of 96 normal elements.
TEST_CASE("RaBitQ: codes that are tried twice are no farther off, and nearer on average") {
  constexpr std::uint32_t kDim = 96;
  constexpr int kRows = 500;
  Normal random(4);
  const std::vector<float> centroid(kDim);
  const auto error_of = [&](const std::vector<float>& row, std::uint32_t planes, index::RabitqTries tries) {
    const Code code = encode(Distance::kL2, centroid, row, planes, tries);
    const std::vector<double> r = difference(row, centroid);
    const double product = dot(code.direction, r);
    return 1 - product * product / (dot(r, r) * dot(code.direction, code.direction));
  };
  for (const auto& [planes, most] : {std::pair{2u, 1.0}, {4u, 0.97}, {5u, 0.93}, {8u, 0.93}}) {
    double once = 0, twice = 0;
    for (int i = 0; i < kRows; ++i) {
      const std::vector<float> row = random.vector(kDim);
      const double before = error_of(row, planes, index::RabitqTries::kOnce);
      const double after = error_of(row, planes, index::RabitqTries::kTwice);
      CHECK(after <= before + 1e-12);
      once += before;
      twice += after;
    }
    CAPTURE(planes);
    CHECK(twice < most * once);
  }
}

TEST_CASE("RaBitQ: factors follow from the row, the centroid and the code") {
  Normal random(2);
  for (const std::uint32_t dim : {1u, 7u, 8u, 61u, 128u}) {
    for (std::uint32_t planes = 1; planes <= compute::kMostPlanes; ++planes) {
      CAPTURE(dim);
      CAPTURE(planes);
      const std::vector<float> centroid = random.vector(dim), row = random.vector(dim);
      const std::vector<double> r = difference(row, centroid);
      const std::vector<double> c = difference(centroid, std::vector<float>(dim));
      for (const Distance distance : {Distance::kL2, Distance::kInnerProduct}) {
        const bool product = distance == Distance::kInnerProduct;
        const Code code = encode(distance, centroid, row, planes);
        for (std::uint32_t i = 0; i < dim; ++i) CHECK((code.signs[i] > 0) == (r[i] > 0));
        const double part = product ? -1 : -2, square = dot(r, r), sum = dot(code.signs, r);
        const double spread = std::sqrt(std::max(0.0, dim - sum * sum / square));
        const double bias = product ? -dot(c, r) : square;
        CHECK(std::fabs(code.factors.bias - bias) < 1e-5 * (1 + std::fabs(bias)));
        CHECK(relative(code.factors.f, part * square / sum) < 1e-6);
        const double g =
            dim == 1 ? 0 : compute::kErrors * -part * square / sum * spread / std::sqrt(dim - 1.0);
        CHECK(std::fabs(code.factors.g - g) < 1e-5 * (1 + g));
        if (planes == 1) {
          CHECK(code.factors.fine == 0);
        } else {
          CHECK(relative(code.factors.fine, part * square / dot(code.direction, r)) < 1e-6);
        }
      }
    }
  }
}

TEST_CASE("RaBitQ: a row that is its centroid, rows too large and too small") {
  for (const std::uint32_t planes : {1u, 4u}) {
    const std::vector<float> row = {1, -2, 3, 0, 5};
    const Code same = encode(Distance::kL2, row, row, planes);
    CHECK(same.factors.f == 0);
    CHECK(same.factors.g == 0);
    CHECK(same.factors.bias == 0);
    CHECK(same.factors.fine == 0);
    for (const float size : {3.4e38f, 1e-45f, 1e-30f}) {
      const std::vector<float> far(5, size), centroid(5, -size);
      const Code code = encode(Distance::kL2, centroid, far, planes);
      for (const float factor :
           {code.factors.f, code.factors.g, code.factors.bias, code.factors.fine}) {
        CHECK(std::isfinite(factor));
      }
    }
  }
}

TEST_CASE(
    "RaBitQ: estimates are right on average, within the bound as a rule, and finer by planes") {
  Normal random(3);
  constexpr std::uint32_t kDim = 128;
  constexpr int kPairs = 3000;
  double before = 1;
  for (std::uint32_t planes = 1; planes <= compute::kMostPlanes; ++planes) {
    double error = 0, square = 0;
    int beyond = 0;
    for (int i = 0; i < kPairs; ++i) {
      const std::vector<float> centroid(kDim), row = random.vector(kDim),
                                               query = random.vector(kDim);
      const Code code = encode(Distance::kL2, centroid, row, planes);
      const std::vector<double> r = difference(row, centroid), x = difference(query, centroid);
      const double length = std::sqrt(dot(r, r) * dot(x, x));
      const double factor = planes == 1 ? code.factors.f : code.factors.fine;
      const double estimate = factor / -2 * dot(planes == 1 ? code.signs : code.direction, x);
      const double off = (estimate - dot(r, x)) / length;
      error += off;
      square += off * off;
      const double signs = code.factors.f / -2 * dot(code.signs, x);
      if (signs - dot(r, x) < -code.factors.g / 2 * std::sqrt(dot(x, x))) ++beyond;
    }
    const double spread = std::sqrt(square / kPairs);
    CAPTURE(planes);
    CHECK(std::fabs(error / kPairs) < 4 * spread / std::sqrt(static_cast<double>(kPairs)));
    CHECK(spread < 0.62 * before);
    if (planes == 1) CHECK(spread < 0.08);
    // One side of a normal distribution beyond kErrors: 0.092.
    CHECK(beyond > 0.07 * kPairs);
    CHECK(beyond < 0.115 * kPairs);
    before = planes == 1 ? spread : std::max(spread, 0.62 * before / 2);
  }
}

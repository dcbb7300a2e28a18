// Locality-sensitive hashing: buckets collide as often as theory has it.
#include "index/lsh/lsh.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "compute/host/lsh_hash.h"
#include "tests/support/lsh_fixture.h"

using namespace warplite;
using namespace warplite::index;
using compute::bucket_of, compute::murmur3;
using namespace warplite::testing;

namespace {

// The match count of the two rows of a matrix.
std::uint32_t common(const LshModel& model, const Floats& pair) {
  const std::vector<std::uint32_t> both = lsh_signatures(model, pair.view());
  return lsh_matches(both.data(), both.data() + model.m(), model.m());
}

// Two rows at a distance; the second is the first, turned, when that is an angle.
Floats pair_at(LshFamily family, Distance distance, double apart, std::uint32_t dim,
               Normal& random) {
  Floats pair{dim, std::vector<float>(2 * dim)};
  std::vector<double> x(dim), step(dim);
  double x2 = 0, norm = 0, along = 0;
  for (double& value : x) value = random(), x2 += value * value;
  for (double& value : step) value = random();
  if (family == LshFamily::kSimhash) {
    for (std::uint32_t d = 0; d < dim; ++d) along += x[d] * step[d] / x2;
    for (std::uint32_t d = 0; d < dim; ++d) step[d] -= along * x[d];
  }
  for (const double value : step) {
    norm += distance == Distance::kL1 ? std::fabs(value) : value * value;
  }
  if (distance != Distance::kL1) norm = std::sqrt(norm);
  for (std::uint32_t d = 0; d < dim; ++d) {
    pair.values[d] = static_cast<float>(x[d]);
    pair.values[dim + d] = static_cast<float>(
        family == LshFamily::kSimhash
            ? 3 * (std::cos(apart) * x[d] + std::sin(apart) * step[d] * std::sqrt(x2) / norm)
            : x[d] + step[d] / norm * apart);
  }
  return pair;
}

// The probability that a function gives two vectors the same value, `apart` in widths, in sigmas,
// or in radians.
double similarity(LshFamily family, Distance distance, double apart) {
  constexpr double pi = std::numbers::pi;
  if (family == LshFamily::kSimhash) return 1 - apart / pi;
  if (family == LshFamily::kRbh) return std::exp(-apart);
  if (apart == 0) return 1;
  const double t = 1 / apart;  // Eqn. 11, integrated
  if (distance == Distance::kL1) return 2 * std::atan(t) / pi - std::log1p(t * t) / (pi * t);
  return std::erf(t / std::sqrt(2.0)) -
         2 / (std::sqrt(2 * pi) * t) * (1 - std::exp(-t * t / 2));
}

struct Case {
  LshFamily family;
  Distance distance;
  std::vector<double> apart;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {LshFamily::kE2lsh, Distance::kL2, {0, 0.05, 0.25, 0.6, 1, 2, 5, 20}},
      {LshFamily::kE2lsh, Distance::kL1, {0, 0.05, 0.25, 0.6, 1, 2, 5, 20}},
      {LshFamily::kRbh, Distance::kL1, {0, 0.05, 0.25, 0.5, 1, 2, 4}},
      {LshFamily::kSimhash, Distance::kCosine, {0, 0.1, 0.5, 1, std::numbers::pi / 2, 2.5, 3.1}}};
  return all;
}

std::uint32_t murmur(const std::string& text, std::uint32_t seed) {
  return murmur3({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, seed);
}

}  // namespace

TEST_CASE("lsh: MurmurHash3 of known texts") {
  CHECK(murmur("", 0) == 0);
  CHECK(murmur("", 1) == 0x514e28b7u);
  CHECK(murmur("", 0xffffffffu) == 0x81f16f39u);
  CHECK(murmur("\xff\xff\xff\xff", 0) == 0x76293b50u);
  CHECK(murmur("\x21\x43\x65\x87", 0) == 0xf55b516bu);
  CHECK(murmur("\x21\x43\x65", 0) == 0x7e4a8634u);
  CHECK(murmur("\x21\x43", 0) == 0xa0f7b07au);
  CHECK(murmur("\x21", 0) == 0x72661cf4u);
  CHECK(murmur("test", 0x9747b28cu) == 0x704b81dcu);
  CHECK(murmur("Hello, world!", 0x9747b28cu) == 0x24884cbau);
  CHECK(murmur("The quick brown fox jumps over the lazy dog", 0x9747b28cu) == 0x2fa826cdu);
  CHECK(bucket_of(0, 67) == 0);
  CHECK(bucket_of(0xffffffffu, 67) == 66);
}

TEST_CASE("lsh: functions agree as often as theory has it, and less with distance") {
  use_worker_threads();
  constexpr std::uint32_t kFunctions = 20000, kDim = 12;
  constexpr double kScale = 2.5;
  Normal random(5);
  for (const Case& each : cases()) {
    const LshOptions given = lsh_options(each.family, kFunctions, kScale, 3);
    const ColumnShape column = lsh_column(each.family, kDim, each.distance);
    const Floats none{kDim, {}};
    const auto model = train_lsh(given, column, none.view(), 0);
    const double unit = each.family == LshFamily::kSimhash ? 1 : kScale;
    double before = 1.1;
    for (const double apart : each.apart) {
      const double s = similarity(each.family, each.distance, apart);
      const double expected = s + (1 - s) / model->buckets() * (model->buckets() == 2 ? 0 : 1);
      const double sigma = std::sqrt(s * (1 - s) / kFunctions);
      double mean = 0;
      constexpr int kPairs = 4;
      for (int i = 0; i < kPairs; ++i) {
        const Floats pair = pair_at(each.family, each.distance, apart * unit, kDim, random);
        const double share = static_cast<double>(common(*model, pair)) / kFunctions;
        CAPTURE(name(each.family));
        CAPTURE(apart);
        CHECK(std::fabs(share - expected) <= 4.5 * sigma + 2e-6);
        mean += share / kPairs;
      }
      CHECK(mean < before);
      before = mean;
    }
  }
}

TEST_CASE("lsh: the shape of a difference does not matter to random binning, only its L1 norm") {
  constexpr std::uint32_t kFunctions = 20000, kDim = 8;
  const Floats none{kDim, {}};
  const auto model = train_lsh(lsh_options(LshFamily::kRbh, kFunctions, 4),
                               lsh_column(LshFamily::kRbh, kDim), none.view(), 0);
  for (const std::uint32_t parts : {1u, 2u, 8u}) {
    Floats pair{kDim, std::vector<float>(2 * kDim)};
    for (std::uint32_t d = 0; d < parts; ++d) {
      pair.values[kDim + d] = 4.0f / static_cast<float>(parts) * (d % 2 == 0 ? 1.0f : -1.0f);
    }
    const double share = static_cast<double>(common(*model, pair)) / kFunctions;
    CHECK(std::fabs(share - std::exp(-1.0)) < 4.5 * std::sqrt(0.2326 / kFunctions));
  }
}

TEST_CASE("lsh: few buckets collide once in as many as there are") {
  constexpr std::uint32_t kFunctions = 20000, kDim = 4;
  const Floats none{kDim, {}};
  for (const LshFamily family : {LshFamily::kE2lsh, LshFamily::kRbh}) {
    for (const std::uint32_t buckets : {2u, 67u}) {
      LshOptions given = lsh_options(family, kFunctions, 1);
      given.buckets = buckets;
      const auto model = train_lsh(given, lsh_column(family, kDim, Distance::kL1), none.view(), 0);
      const Floats pair{kDim, {0, 0, 0, 0, 2e5f, -3e5f, 2.5e5f, 1e5f}};
      const std::vector<std::uint32_t> both = lsh_signatures(*model, pair.view());
      CHECK(*std::max_element(both.begin(), both.end()) == buckets - 1);
      const double p = 1.0 / buckets;
      const double share = static_cast<double>(common(*model, pair)) / kFunctions;
      CHECK(std::fabs(share - p) < 4.5 * std::sqrt(p * (1 - p) / kFunctions));
    }
  }
}

TEST_CASE("lsh: match count / m is within epsilon of the similarity, with probability 1 - delta") {
  constexpr double kEpsilon = 0.06, kDelta = 0.06;
  constexpr std::uint32_t kDim = 8;
  constexpr std::uint32_t kTrials = 1500;  // each with functions of its own
  const std::uint32_t m = functions_for(kEpsilon, kDelta);
  const Floats none{kDim, {}};
  Normal random(11);
  for (const Case& each : cases()) {
    std::uint32_t within = 0;
    double expected = 0, variance = 0;
    for (std::uint32_t trial = 0; trial < kTrials; ++trial) {
      const auto model = train_lsh(lsh_options(each.family, m, 1, trial),
                                   lsh_column(each.family, kDim, each.distance), none.view(), 0);
      const double apart = 3 * static_cast<double>(random.whole() >> 11) * 0x1p-53;
      const Floats pair = pair_at(each.family, each.distance, apart, kDim, random);
      const double s = similarity(each.family, each.distance, apart);
      const double estimate = static_cast<double>(common(*model, pair)) / m;
      within += std::fabs(estimate - s) <= kEpsilon ? 1 : 0;
      const double p = estimate_probability(m, s, kEpsilon);
      expected += p;
      variance += p * (1 - p);
    }
    CAPTURE(name(each.family));
    CHECK(within >= (1 - kDelta) * kTrials);
    CHECK(std::fabs(within - expected) < 4.5 * std::sqrt(variance));
  }
}

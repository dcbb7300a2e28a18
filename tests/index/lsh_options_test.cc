// What index=lsh takes as parameters, and how many functions meet an error.
#include "index/lsh/options.h"

#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::index;
using namespace warplite::testing;

namespace {

std::string refusal(const std::string& text, const ColumnShape& column) {
  try {
    parse_lsh(spec("lsh", text), column);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalid);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("lsh: 237 functions for 0.06 and 0.06, by the sum of the paper") {
  CHECK(functions_for(0.06, 0.06) == 237);
  CHECK(LshOptions().m == 237);
  // Term after term, instead of from logarithms.
  const auto plain = [](std::uint32_t m, double s, double epsilon) {
    long double term = std::pow(1 - static_cast<long double>(s), m), sum = 0;
    for (std::uint32_t c = 0; c <= m; ++c) {
      if (std::fabs(static_cast<double>(c) / m - s) <= epsilon + 1e-12) sum += term;
      term *= (m - c) / (c + 1.0L) * s / (1 - static_cast<long double>(s));
    }
    return static_cast<double>(sum);
  };
  for (const std::uint32_t m : {1u, 2u, 25u, 100u, 236u, 237u, 500u}) {
    for (const double s : {0.01, 0.06, 0.3, 0.49, 0.5, 0.9, 0.99}) {
      for (const double epsilon : {0.01, 0.06, 0.25}) {
        CHECK(estimate_probability(m, s, epsilon) ==
              doctest::Approx(plain(m, s, epsilon)).epsilon(1e-9));
      }
    }
  }
  for (std::uint32_t m = 1; m < 237; ++m) CHECK(estimate_probability(m, 0.49, 0.06) < 0.94);
  // What the header says of other s, and of 1/2.
  for (const std::uint32_t m : {234u, 236u, 238u}) CHECK(estimate_probability(m, 0.5, 0.06) > 0.94);
  for (const std::uint32_t m : {235u, 237u, 239u}) CHECK(estimate_probability(m, 0.5, 0.06) < 0.94);
  for (int s = 1; s < 1000; ++s) CHECK(estimate_probability(237, s / 1000.0, 0.06) > 0.931);
  CHECK(functions_for(0.001, 1e-6) == 0);
  CHECK(functions_for(0.1, 0.1) < functions_for(0.05, 0.1));
  CHECK(functions_for(0.05, 0.1) < functions_for(0.05, 0.05));
}

TEST_CASE("lsh: parameters and what they are when nobody says") {
  const ColumnShape l2{ElementType::kFloat32, 8, Distance::kL2};
  const ColumnShape l1{ElementType::kFloat16, 8, Distance::kL1};
  const ColumnShape cosine{ElementType::kInt8, 8, Distance::kCosine};
  const auto parse = [](const std::string& text, const ColumnShape& column) {
    return parse_lsh(spec("lsh", text), column);
  };
  CHECK(parse("", l2).family == LshFamily::kE2lsh);
  CHECK(parse("", l1).family == LshFamily::kE2lsh);
  CHECK(parse("", cosine).family == LshFamily::kSimhash);
  CHECK(parse("", cosine).buckets == 2);
  CHECK(parse("", l2).m == 237);
  CHECK(parse("", l2).buckets == 8192);
  CHECK(parse("", l2).refine == 8);
  CHECK(parse("epsilon=0.1", l2).m == functions_for(0.1, 0.06));
  CHECK(parse("delta=0.1", l2).m == functions_for(0.06, 0.1));
  const LshOptions all = parse("family=rbh m=64 buckets=67 sigma=2.5 seed=7 refine=0", l1);
  CHECK(all.family == LshFamily::kRbh);
  CHECK(all.m == 64);
  CHECK(all.buckets == 67);
  CHECK(all.sigma == 2.5);
  CHECK(all.seed == 7);
  CHECK(all.refine == 0);
  CHECK(parse("width=0.125", l2).width == 0.125);
}

TEST_CASE("lsh: refusals name the parameter, what was expected and what came") {
  const ColumnShape l2{ElementType::kFloat32, 8, Distance::kL2};
  const ColumnShape l1{ElementType::kFloat32, 8, Distance::kL1};
  const ColumnShape cosine{ElementType::kFloat32, 8, Distance::kCosine};
  CHECK(refusal("family=minhash", l2) ==
        "index=lsh expects family=e2lsh, rbh or simhash, but \"minhash\" was given");
  CHECK(refusal("family=rbh", l2) ==
        "index=lsh with family=rbh needs distance=l1, but distance=l2 was given");
  CHECK(refusal("family=e2lsh", cosine) ==
        "index=lsh with family=e2lsh needs distance=l2 or l1, but distance=cosine was given");
  CHECK(refusal("family=simhash", l1) ==
        "index=lsh with family=simhash needs distance=cosine, but distance=l1 was given");
  CHECK(refusal("", {ElementType::kFloat32, 8, Distance::kInnerProduct}) ==
        "index=lsh needs distance=l2, cosine or l1, but distance=ip was given");
  CHECK(refusal("", {ElementType::kBit, 8, Distance::kHamming}) ==
        "index=lsh needs FLOAT, FLOAT16, BFLOAT16 or INT8 vectors, but the column holds BIT");
  CHECK(refusal("m=0", l2) == "index=lsh expects m=1 to 65536, but \"0\" was given");
  CHECK(refusal("m=12.5", l2) == "index=lsh expects m=1 to 65536, but \"12.5\" was given");
  CHECK(refusal("epsilon=6%", l2) ==
        "index=lsh expects epsilon=a number from 0.001 to 0.5, but \"6%\" was given");
  CHECK(refusal("delta=0", l2) ==
        "index=lsh expects delta=a number from 0.000001 to 0.5, but \"0\" was given");
  CHECK(refusal("delta=nan", l2) ==
        "index=lsh expects delta=a number from 0.000001 to 0.5, but \"nan\" was given");
  CHECK(refusal("m=9 delta=0.1", l2) ==
        "index=lsh expects m, or epsilon and delta, but m=9 and delta were given");
  CHECK(refusal("epsilon=0.001", l2) ==
        "index=lsh expects an epsilon and a delta that 65536 functions can meet, but smaller ones "
        "were given");
  CHECK(refusal("buckets=1", l2) == "index=lsh expects buckets=2 to 1048576, but \"1\" was given");
  CHECK(refusal("width=0", l2) ==
        "index=lsh expects width=a number from 1e-30 to 1e30, but \"0\" was given");
  CHECK(refusal("family=rbh sigma=inf", l1) ==
        "index=lsh expects sigma=a number from 1e-30 to 1e30, but \"inf\" was given");
  CHECK(refusal("seed=-1", l2) == "index=lsh expects seed=0 to 4294967295, but \"-1\" was given");
  CHECK(refusal("refine=10001", l2) ==
        "index=lsh expects refine=0 to 10000, but \"10001\" was given");
  CHECK(refusal("sigma=1", l2) ==
        "index=lsh with family=e2lsh takes the parameters family, m, epsilon, delta, buckets, "
        "width, seed, refine, but \"sigma\" was given");
  CHECK(refusal("buckets=2", cosine) ==
        "index=lsh with family=simhash takes the parameters family, m, epsilon, delta, seed, "
        "refine, but \"buckets\" was given");
}

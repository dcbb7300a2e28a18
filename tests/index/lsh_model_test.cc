// Models of locality-sensitive hashing: as bytes, and the buckets that they give, which are the
// same whatever the threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "compute/host/lsh_hash.h"
#include "index/lsh/layout.h"
#include "index/lsh/training.h"
#include "tests/support/conformance_devices.h"
#include "tests/support/lsh_fixture.h"

using namespace warplite;
using namespace warplite::index;
using compute::bucket_of, compute::murmur3;
using namespace warplite::testing;

namespace {

ErrorKind opening(std::span<const std::byte> bytes, const ColumnShape& column,
                  const LshOptions& given) {
  try {
    open_lsh(bytes, column, given);
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::kOk;
}

// What lsh.h says the signature is, word by word, from the bytes of a model.
std::vector<std::uint32_t> plain_signature(const LshModel& model, const float* x) {
  const float* const factors = reinterpret_cast<const float*>(model.bytes().data() + 80);
  const std::uint32_t m = model.m(), dim = model.dim();
  const float* const offsets = factors + std::size_t{m} * dim;
  const bool binning = model.family() == LshFamily::kRbh;
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < m; ++i) {
    std::vector<std::uint8_t> bytes;
    double sum = 0;
    for (std::uint32_t d = 0; d < dim; ++d) {
      const double product = static_cast<double>(factors[i * dim + d]) * static_cast<double>(x[d]);
      sum += product;
      if (!binning) continue;
      const double cell = std::nearbyint(product + static_cast<double>(offsets[i * dim + d]));
      const auto number = static_cast<std::uint64_t>(static_cast<std::int64_t>(cell));
      for (int b = 0; b < 4; ++b) bytes.push_back(static_cast<std::uint8_t>(number >> (8 * b)));
    }
    if (model.family() == LshFamily::kE2lsh) {
      const double cell = std::nearbyint(sum + static_cast<double>(offsets[i]));
      const auto number = std::bit_cast<std::uint64_t>(cell + 0x1.8p52);
      for (int b = 0; b < 8; ++b) bytes.push_back(static_cast<std::uint8_t>(number >> (8 * b)));
    }
    out.push_back(model.family() == LshFamily::kSimhash
                      ? (sum >= 0 ? 1 : 0)
                      : bucket_of(murmur3(bytes, i), model.buckets()));
  }
  return out;
}

}  // namespace

TEST_CASE("lsh: the same buckets as computed one by one, with any threads, of any block") {
  const Restore restore;
  use_worker_threads();
  Normal random(17);
  for (const LshCase& each : kLshCases) {
    for (const std::uint32_t dim : {1u, 5u, 64u}) {
      for (const std::uint32_t m : {1u, 7u, 64u}) {
        Floats rows{dim, std::vector<float>(263 * dim)};
        for (float& value : rows.values) value = 30 * random();
        std::fill_n(rows.values.begin(), dim, 0.0f);
        std::fill_n(rows.values.begin() + dim, dim, each.family == LshFamily::kRbh ? 1e7f : 3e38f);
        const auto model = train_lsh(lsh_options(each.family, m, 7.5, 1),
                                     lsh_column(each.family, dim, each.distance), rows.view(), 263);
        compute::set_thread_count(1);
        const std::vector<std::uint32_t> one = lsh_signatures(*model, rows.view());
        for (const std::string& target : cpu::simd_targets()) {
          cpu::force_simd_target(target);
          for (const unsigned threads : {1u, 5u}) {
            compute::set_thread_count(threads);
            CHECK(lsh_signatures(*model, rows.view()) == one);
          }
        }
        for (std::size_t i = 0; i < rows.rows(); ++i) {
          const auto first = one.begin() + static_cast<std::ptrdiff_t>(i * m);
          const std::vector<std::uint32_t> expected(first, first + m);
          if (plain_signature(*model, rows.row(i)) != expected) {
            FAIL(name(each.family), " dim ", dim, " m ", m, " row ", i);
          }
          CHECK(lsh_signatures(*model, {reinterpret_cast<const std::byte*>(rows.row(i)), 1, dim,
                                    ElementType::kFloat32}) == expected);
        }
      }
    }
  }
}

TEST_CASE("lsh: rows that are spread over threads and over several conversions") {
  const RestoreThreads restore;
  use_worker_threads();
  const Floats rows = clustered(9001, 48, 20, 1, 2);
  for (const LshCase& each : kLshCases) {
    const auto model = train_lsh(lsh_options(each.family, 64),
                                 lsh_column(each.family, 48, each.distance), rows.view(), 9001);
    compute::set_thread_count(1);
    const std::vector<std::uint32_t> one = lsh_signatures(*model, rows.view());
    compute::set_thread_count(4);
    CHECK(lsh_signatures(*model, rows.view()) == one);
    for (const std::size_t i : {0u, 4095u, 4096u, 9000u}) {
      const auto first = one.begin() + static_cast<std::ptrdiff_t>(i * 64);
      CHECK(plain_signature(*model, rows.row(i)) == std::vector<std::uint32_t>(first, first + 64));
    }
  }
}

TEST_CASE("lsh: elements of any type, rows that are not there, keywords") {
  constexpr std::uint32_t kDim = 6, kM = 10;
  const std::vector<std::int8_t> bytes = {1, -2, 3, 0, 127, -128, 5, 5, 5,
                                          5, 5,  5, 0, 1,   0,    1, 0, 1};
  std::vector<std::uint16_t> halves;
  Floats floats{kDim, {}};
  for (const std::int8_t value : bytes) {
    floats.values.push_back(value);
    halves.push_back(float_to_half(value));
  }
  const Floats none{kDim, {}};
  for (const LshFamily family : {LshFamily::kE2lsh, LshFamily::kRbh, LshFamily::kSimhash}) {
    const auto model =
        train_lsh(lsh_options(family, kM, 50), lsh_column(family, kDim), none.view(), 0);
    const std::vector<std::uint32_t> expected = lsh_signatures(*model, floats.view());
    CHECK(lsh_signatures(*model, {reinterpret_cast<const std::byte*>(bytes.data()), 3, kDim,
                              ElementType::kInt8}) == expected);
    CHECK(lsh_signatures(*model, {reinterpret_cast<const std::byte*>(halves.data()), 3, kDim,
                              ElementType::kFloat16}) == expected);
    Bitmap present(3, true);
    present.reset(1);
    std::vector<std::uint32_t> out(3 * kM);
    model->signature(floats.view(), &present, out.data());
    std::vector<compute::Keyword> keywords;
    for (std::size_t i = 0; i < out.size(); ++i) {
      CHECK(out[i] == (i / kM == 1 ? kNoBucket : expected[i]));
    }
    model->append_keywords(out.data() + kM, keywords);
    CHECK(keywords.empty());
    model->append_keywords(out.data(), keywords);
    REQUIRE(keywords.size() == kM);
    for (std::uint32_t i = 0; i < kM; ++i) {
      CHECK(keywords[i] == std::uint64_t{i} * model->buckets() + expected[i]);
    }
  }
}

TEST_CASE("lsh: few functions are the first of many, other seeds draw others") {
  const Floats rows = clustered(50, 8, 5, 1, 2);
  for (const LshFamily family : {LshFamily::kE2lsh, LshFamily::kRbh, LshFamily::kSimhash}) {
    const ColumnShape column = lsh_column(family, 8);
    const auto few = train_lsh(lsh_options(family, 20), column, rows.view(), 50);
    const auto many = train_lsh(lsh_options(family, 90), column, rows.view(), 50);
    const auto other = train_lsh(lsh_options(family, 20, 0, 1), column, rows.view(), 50);
    const std::vector<std::uint32_t> a = lsh_signatures(*few, rows.view());
    const std::vector<std::uint32_t> b = lsh_signatures(*many, rows.view());
    for (std::size_t i = 0; i < 50; ++i) CHECK(lsh_matches(&a[i * 20], &b[i * 90], 20) == 20);
    CHECK(lsh_signatures(*other, rows.view()) != a);
  }
}

TEST_CASE("lsh: widths from a sample") {
  use_worker_threads();
  Floats rows{2, {0, 0, 3, 4, 0, 0, 6, 8, 3, 4}};
  const auto scale = [&](LshFamily family, Distance distance, double given = 0) {
    return lsh_scale(lsh_options(family, 1, given), distance, {rows.values.data(), rows.rows(), 2});
  };
  // Each row's nearest that is another: 5, 5, 5, 5, 5; and by L1 7.
  CHECK(scale(LshFamily::kE2lsh, Distance::kL2) == doctest::Approx(1.6 * 5));
  CHECK(scale(LshFamily::kE2lsh, Distance::kL1) == doctest::Approx(1.6 * 7));
  // Ten pairs: two alike, six 7 apart, two 14.
  CHECK(scale(LshFamily::kRbh, Distance::kL1) == doctest::Approx((6 * 7 + 2 * 14) / 10.0));
  CHECK(scale(LshFamily::kRbh, Distance::kL1, 3) == 3);
  CHECK(scale(LshFamily::kE2lsh, Distance::kL2, 3) == 3);
  CHECK(scale(LshFamily::kSimhash, Distance::kCosine) == 1);
  rows.values = {1, 2, 1, 2};
  CHECK(scale(LshFamily::kE2lsh, Distance::kL2) == 1);
  rows.values = {1, 2};
  CHECK_THROWS_WITH_AS(scale(LshFamily::kRbh, Distance::kL1),
                       "index=lsh needs at least 2 rows to choose its sigma, but there are 1",
                       Error);
  CHECK_THROWS_WITH_AS(scale(LshFamily::kE2lsh, Distance::kL2),
                       "index=lsh needs at least 2 rows to choose its width, but there are 1",
                       Error);
}

TEST_CASE("lsh: vectors that are very large or very small have a model, too") {
  for (const float size : {1e-38f, 3e38f}) {
    const Floats rows{2, {0, size, size, 0, -size, size, size / 2, size}};
    for (const LshCase& each : kLshCases) {
      const LshOptions given = lsh_options(each.family, 32);
      const ColumnShape column = lsh_column(each.family, 2, each.distance);
      const auto model = train_lsh(given, column, rows.view(), 4);
      CHECK(opening(model->bytes(), column, given) == ErrorKind::kOk);
      const std::vector<std::uint32_t> all = lsh_signatures(*model, rows.view());
      CHECK(lsh_matches(all.data(), all.data() + 32, 32) < 32);
    }
  }
}

TEST_CASE("lsh: a model is read as it was written, and not when damaged") {
  const Floats rows = clustered(100, 6, 5, 1, 2);
  for (const LshCase& each : kLshCases) {
    const LshOptions given = lsh_options(each.family, 5, 0, 9);
    const ColumnShape column = lsh_column(each.family, 6, each.distance);
    const auto model = train_lsh(given, column, rows.view(), 12345);
    const std::vector<std::byte> good(model->bytes().begin(), model->bytes().end());
    const auto again = open_lsh(good, column, given);
    CHECK(std::equal(good.begin(), good.end(), again->bytes().begin(), again->bytes().end()));
    CHECK(again->trained_on() == 100);
    CHECK(again->table_rows() == 12345);
    CHECK(again->scale() == model->scale());
    CHECK(lsh_signatures(*again, rows.view()) == lsh_signatures(*model, rows.view()));

    for (std::size_t size = 0; size < good.size(); ++size) {
      CHECK(opening({good.data(), size}, column, given) == ErrorKind::kCorrupt);
    }
    std::vector<std::byte> longer = good;
    longer.resize(good.size() + 4);
    CHECK(opening(longer, column, given) == ErrorKind::kCorrupt);
    // All of the header but the scale (40 … 47) and what it learnt from (48 … 63) is known; of the
    // scale its sign, and all of simhash's.
    for (std::size_t at = 0; at < 80; ++at) {
      std::vector<std::byte> bad = good;
      bad[at] ^= std::byte{0x80};
      const bool chosen = each.family != LshFamily::kSimhash && at >= 40 && at < 47;
      const bool free = chosen || (at >= 48 && at < 64);
      CAPTURE(at);
      CHECK(opening(bad, column, given) == (free ? ErrorKind::kOk : ErrorKind::kCorrupt));
    }
  }
}

TEST_CASE("lsh: a model's numbers are finite, its pitches positive, its offsets within a cell") {
  const Floats rows = clustered(100, 6, 5, 1, 2);
  for (const LshCase& each : kLshCases) {
    const LshOptions given = lsh_options(each.family, 5, 0, 9);
    const ColumnShape column = lsh_column(each.family, 6, each.distance);
    const auto model = train_lsh(given, column, rows.view(), 100);
    const std::vector<std::byte> good(model->bytes().begin(), model->bytes().end());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinite = std::numeric_limits<float>::infinity();
    for (std::size_t at = 80; at < good.size(); at += sizeof(float)) {
      for (const float value : {nan, infinite, -infinite}) {
        std::vector<std::byte> bad = good;
        std::memcpy(bad.data() + at, &value, sizeof value);
        CHECK(opening(bad, column, given) == ErrorKind::kCorrupt);
      }
    }
    const auto with_float = [&](std::size_t at, float value) {
      std::vector<std::byte> bad = good;
      std::memcpy(bad.data() + at, &value, sizeof value);
      return opening(bad, column, given);
    };
    const bool simhash = each.family == LshFamily::kSimhash;
    CHECK(with_float(80, -1) ==
          (each.family == LshFamily::kRbh ? ErrorKind::kCorrupt : ErrorKind::kOk));
    CHECK(with_float(good.size() - 4, 0.75f) == (simhash ? ErrorKind::kOk : ErrorKind::kCorrupt));
  }
}

TEST_CASE("lsh: a model is of the options that it was drawn for") {
  const Floats rows = clustered(100, 6, 5, 1, 2);
  for (const LshCase& each : kLshCases) {
    const LshOptions given = lsh_options(each.family, 5, 0, 9);
    const ColumnShape column = lsh_column(each.family, 6, each.distance);
    const auto model = train_lsh(given, column, rows.view(), 100);
    const std::span<const std::byte> good = model->bytes();
    const bool simhash = each.family == LshFamily::kSimhash;
    for (const LshCase& another : kLshCases) {
      const bool same = another.family == each.family && another.distance == each.distance;
      CHECK(opening(good, lsh_column(another.family, 6, another.distance),
                    lsh_options(another.family, 5, 0, 9)) ==
            (same ? ErrorKind::kOk : ErrorKind::kCorrupt));
    }
    CHECK(opening(good, lsh_column(each.family, 7, each.distance), given) == ErrorKind::kCorrupt);
    LshOptions other = given;
    other.seed = 8;
    CHECK(opening(good, column, other) == ErrorKind::kCorrupt);
    other = given;
    other.m = 6;
    CHECK(opening(good, column, other) == ErrorKind::kCorrupt);
    if (simhash) continue;
    other = given;
    (each.family == LshFamily::kRbh ? other.sigma : other.width) = 2;
    CHECK(opening(good, column, other) == ErrorKind::kCorrupt);
    const auto fixed = train_lsh(other, column, rows.view(), 1);
    CHECK(opening(fixed->bytes(), column, other) == ErrorKind::kOk);
    std::vector<std::byte> bad(fixed->bytes().begin(), fixed->bytes().end());
    const double scale = 3;
    std::memcpy(bad.data() + offsetof(LshHeader, scale), &scale, sizeof scale);
    CHECK(opening(bad, column, other) == ErrorKind::kCorrupt);
  }
}

// Every device against the reference, with metric indexes and without: hits must be equal, bit for bit
// and in order. A device is a line in conformance_devices.cc; everything else knows compute/ only.
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "tests/conformance/exact_case.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;
using namespace warplite::testing::exact;

TEST_CASE("devices: every dimension gives the reference's bits") {
  const Restore restore;
  std::vector<std::uint32_t> dims;
  for (std::uint32_t dim = 1; dim <= 70; dim += 1 + dim / 24) dims.push_back(dim);
  for (std::uint32_t dim : {64u, 96u, 100u, 128u, 384u, 768u, 1000u}) dims.push_back(dim);
  std::uint64_t n = 0;
  for (const Pair& pair : all_pairs()) {
    for (std::uint32_t dim : dims) {
      ++n;
      Shape shape{pair.type, pair.distance, is_bits(pair.type) ? dim * 8 : dim,
                  static_cast<Data>(n % static_cast<std::uint64_t>(Data::kCount)),
                  {turn<std::uint32_t>({63, 64, 65, 127, 128, 130, 255, 257}, n),
                   turn<std::uint32_t>({1, 15, 16, 17, 33, 0}, n)},
                  turn<std::size_t>({1, 2, 5, 17, 7}, n), turn<std::size_t>({1, 10, 3, 1000}, n)};
      shape.filter = turn({0, 0, 2, 3}, n / 5);
      shape.range = turn({0, 1, 0, 2, 0, 3}, n / 7);
      shape.after = shape.queries == 1 && n % 3 == 0;
      shape.seed = n;
      check_everywhere(shape);
    }
  }
}

TEST_CASE("devices: every kind of data in batches") {
  const Restore restore;
  std::uint64_t n = 0;
  for (const Pair& pair : all_pairs()) {
    for (int data = 0; data < static_cast<int>(Data::kCount); ++data) {
      for (std::size_t queries : {1, 3, 33, 100}) {
        ++n;
        Shape shape{pair.type, pair.distance, turn<std::uint32_t>({24, 40, 72, 8}, n),
                    static_cast<Data>(data),
                    {turn<std::uint32_t>({300, 511, 513, 200}, n), 190},
                    queries, turn<std::size_t>({1, 10, 5}, n)};
        shape.filter = turn({0, 2, 0, 20, 0}, n);
        shape.range = turn({0, 0, 0, 1, 2, 3}, n);
        shape.seed = 1000 + n;
        check_everywhere(shape);
      }
    }
  }
  CHECK(indexed > 100000);  // so that all this says something of metric indexes
}

TEST_CASE("devices: tables large enough for several threads") {
  const Restore restore;
  std::uint64_t n = 0;
  for (const Pair& pair : all_pairs()) {
    for (std::size_t queries : {1, 40}) {
      ++n;
      Shape shape{pair.type, pair.distance, turn<std::uint32_t>({96, 128}, n),
                  turn<Data>({Data::kRandom, Data::kNearTies, Data::kFewValues}, n),
                  queries == 1 ? std::vector<std::uint32_t>{5000, 4096, 3000}
                               : std::vector<std::uint32_t>{1500, 700},
                  queries, turn<std::size_t>({10, 100, 1}, n)};
      shape.filter = turn({0, 3}, n / 2);
      shape.seed = 5000 + n;
      check_everywhere(shape);
    }
  }
  for (Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
    Shape shape{ElementType::kFloat32, distance, 20, Data::kRandom, {3000, 2000, 1}, 300, 100};
    shape.range = 1;
    shape.seed = 6000;
    check_everywhere(shape);
    shape.data = Data::kOffset;
    shape.queries = 20;
    check_everywhere(shape);
  }
}

TEST_CASE("devices: batches that want up to thousands of rows") {
  const Restore restore;
  std::uint64_t n = 0;
  for (const std::size_t k : {64, 65, 161, 512, 513, 1024, 1025, 2048, 2049}) {
    for (const Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
      ++n;
      Shape shape{turn({ElementType::kFloat32, ElementType::kInt8, ElementType::kFloat16}, n / 3), distance,
                  turn<std::uint32_t>({24, 40}, n),
                  turn({Data::kRandom, Data::kOffset, Data::kNearTies, Data::kFewValues, Data::kRandom}, n),
                  {5000, 3001}, 20, k};
      shape.filter = turn({0, 0, 3}, n);
      shape.seed = 7000 + n;
      check_everywhere(shape);
    }
  }
}

TEST_CASE("devices: nothing lives, nothing is there, k of zero") {
  const Restore restore;
  for (const Pair& pair : all_pairs()) {
    for (std::size_t queries : {std::size_t{1}, std::size_t{20}}) {
      Shape shape{pair.type, pair.distance, 16, Data::kRandom, {100, 200}, queries, 10};
      shape.filter = -1;
      check_everywhere(shape);
      shape.filter = 0;
      shape.block_rows = {0, 0};
      check_everywhere(shape);
      shape.block_rows = {70, 50};
      shape.k = 0;
      check_everywhere(shape);
    }
  }
}

TEST_CASE("devices: long vectors at the ends of what float32 holds") {
  const Restore restore;
  struct Long {
    std::uint32_t dim;
    Data data;
    Distance distance;
    std::size_t k;
  };
  constexpr Long kLong[] = {{20000, Data::kAllOrNothing, Distance::kL2, 3},
                            {20000, Data::kMixedScales, Distance::kL2, 3},
                            {65536, Data::kAllOrNothing, Distance::kL2, 3},
                            {65536, Data::kLeastSquares, Distance::kL2, 3},
                            {65536, Data::kBiased, Distance::kL2, 60},
                            {65536, Data::kLeastNormal, Distance::kInnerProduct, 3},
                            {65536, Data::kLargest, Distance::kCosine, 3}};
  std::uint64_t n = 7000;
  for (const Long& one : kLong) {
    Shape shape{ElementType::kFloat32, one.distance, one.dim, one.data, {400}, 12, one.k};
    shape.seed = ++n;
    Case current(shape);
    current.expect();
    // They take long: GPUs, and the CPU as it is.
    for (const Candidate& candidate : conformance_devices()) {
      if (candidate.asks != 0 && &candidate != &conformance_devices().front()) continue;
      INFO(candidate.name, ": ", describe(shape));
      current.check(candidate, false);
    }
  }
}

TEST_CASE("devices: vectors of 65,536 elements do not overflow integer sums") {
  const Restore restore;
  for (const Pair& pair : all_pairs()) {
    Shape shape{pair.type, pair.distance, 65536, Data::kFewValues, {5, 4}, 2, 3};
    check_everywhere(shape);
  }
}

TEST_CASE("devices: a few rows of any size do not keep a batch from the product") {
  const Restore restore;
  Shape shape{ElementType::kFloat32, Distance::kL2, 64, Data::kRandom, {3000}, 100, 10};
  for (Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
    shape.distance = distance;
    shape.huge = 5;
    shape.seed = 8000;
    check_everywhere(shape);
  }
}

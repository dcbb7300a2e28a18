// Sums of bitmaps with weights, against a count of every row.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "engine/match/bit_planes.h"

namespace warplite::engine {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  // From 0 to before n.
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  std::uint64_t word() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

// Bitmaps of different densities with their weights, and what they come to.
struct Sums {
  std::vector<std::vector<std::uint64_t>> bitmaps;
  std::vector<BitPlanes::Addend> addends;
  std::vector<std::uint64_t> counts;

  Sums(Random& random, std::size_t words, int bitmaps_count, int most_weight)
      : counts(words * 64) {
    for (int i = 0; i < bitmaps_count; ++i) {
      std::vector<std::uint64_t>& rows = bitmaps.emplace_back(words);
      const int density = random.pick(3);
      for (std::uint64_t& word : rows) {
        word = random.word();
        if (density == 0) word &= random.word() & random.word();
        if (density == 2) word |= random.word() | random.word();
      }
    }
    for (const auto& rows : bitmaps) {
      const auto weight = static_cast<std::uint64_t>(1 + random.pick(most_weight));
      addends.push_back({rows.data(), weight});
      for (std::size_t row = 0; row < counts.size(); ++row) {
        if ((rows[row / 64] >> (row % 64) & 1) != 0) counts[row] += weight;
      }
    }
  }
};

// Whether a bitmap has the rows for which test(count) holds.
template <typename Test>
bool has_rows(const std::vector<std::uint64_t>& rows, const Sums& sums, const Test& test) {
  for (std::size_t row = 0; row < sums.counts.size(); ++row) {
    if ((rows[row / 64] >> (row % 64) & 1) != static_cast<std::uint64_t>(test(sums.counts[row]))) {
      return false;
    }
  }
  return true;
}

TEST_CASE("bit planes: sums, thresholds and the largest") {
  Random random(1);
  BitPlanes planes;
  for (int round = 0; round < 150; ++round) {
    const std::size_t words = kSliceWords * static_cast<std::size_t>(1 + random.pick(3));
    const int most_weight = round % 3 == 0 ? 1 : round % 3 == 1 ? 7 : 1000000;
    const Sums sums(random, words, random.pick(40), most_weight);
    CAPTURE(round);
    planes.sum(sums.addends, words);
    std::size_t wrong = 0;
    for (std::size_t row = 0; row < sums.counts.size(); ++row) {
      wrong += planes.count(row) != sums.counts[row];
    }
    REQUIRE(wrong == 0);
    std::vector<std::uint64_t> sorted = sums.counts;
    std::sort(sorted.rbegin(), sorted.rend());
    for (const std::uint64_t least :
         {std::uint64_t{1}, sorted[sorted.size() / 2], sorted[0], sorted[0] + 1,
          std::uint64_t{1} << 60}) {
      const auto enough = [&](std::uint64_t count) { return count >= least; };
      std::vector<std::uint64_t> rows(words, ~std::uint64_t{0});
      const auto expected = std::count_if(sorted.begin(), sorted.end(), enough);
      REQUIRE(planes.at_least(least, rows.data()) == static_cast<std::size_t>(expected));
      REQUIRE(has_rows(rows, sums, enough));
    }
    for (const std::size_t k :
         {std::size_t{1}, std::size_t{100}, sorted.size() / 2, sorted.size()}) {
      std::vector<std::uint64_t> rows(words, ~std::uint64_t{0}), ties(words, 1);
      const BitPlanes::Largest found = planes.largest(k, rows.data(), ties.data());
      const std::uint64_t kth = sorted[k - 1];
      const auto larger = [&](std::uint64_t count) { return count > kth; };
      REQUIRE(found.count == kth);
      REQUIRE(found.more == static_cast<std::size_t>(
                                std::count_if(sorted.begin(), sorted.end(), larger)));
      REQUIRE(has_rows(rows, sums, larger));
      REQUIRE(has_rows(ties, sums, [&](std::uint64_t count) { return count == kth; }));
    }
  }
}

}  // namespace
}  // namespace warplite::engine

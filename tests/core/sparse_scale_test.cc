// Counters of sparse vectors bound the sums that they stand for, and stay within 16 bits.
#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "compute/sparse/scale.h"

using namespace warplite::compute;

namespace {

using Random = std::mt19937_64;

struct List {
  double each;
  bool taken_off;
  std::uint16_t weight;
};

struct Lists {
  std::vector<List> all;
  double most = 0, least = 0;
  std::uint32_t added = 0;
};

Lists some_lists(Random& random) {
  Lists lists;
  const std::size_t count = 1 + random() % (random() % 8 == 0 ? kMostSparseLists : 40);
  const double negative = static_cast<double>(random() % 3) / 4;
  const int wide = random() % 2 == 0 ? 4 : 200;
  for (std::size_t i = 0; i < count; ++i) {
    const double size = 1 + static_cast<double>(random() % 1000) / 1000;
    const double each = std::ldexp(size, static_cast<int>(random() % 200) % wide - wide / 2);
    const bool taken_off = static_cast<double>(random() % 100) < 100 * negative;
    lists.all.push_back({each, taken_off, 0});
    (taken_off ? lists.least : lists.most) += kMostSparseImpact * each;
    lists.added += taken_off ? 0 : 1;
  }
  return lists;
}

}  // namespace

TEST_CASE("counters of sparse vectors bound sums") {
  Random random(11);
  std::size_t served = 0;
  for (int round = 0; round < 20000; ++round) {
    Lists lists = some_lists(random);
    const auto count = static_cast<std::uint32_t>(lists.all.size());
    const std::uint32_t widest = random() % 2 == 0 ? count + 1 : 1 + random() % count;
    const SparseScale scale = sparse_scale(lists.most, lists.least, lists.added, count, widest);
    if (scale.unit == 0) {
      CHECK(lists.most == 0);
      continue;
    }
    if (!scale.serves()) continue;
    ++served;
    // As devices have it whose counters cannot fall without end.
    const double share = std::min(1.0, lists.most / std::max(lists.least, lists.most));
    const bool all_impacts = random() % 4 == 0;
    double sum = 0;
    long counter = 0, lowest = 0, highest = 0;
    std::uint32_t entries = 0;  // of the row
    for (List& list : lists.all) {
      list.weight = scale.weight(list.taken_off ? list.each * share : list.each, list.taken_off);
      const auto impact =
          all_impacts ? kMostSparseImpact : static_cast<std::uint32_t>(random() % 256);
      if (impact == 0 || entries == widest) continue;
      ++entries;
      // Above impact − 1 steps, and at most impact steps.
      const double part = static_cast<double>(1 + random() % 1000) / 1000;
      const double value = list.each * (impact - 1 + (all_impacts ? 1 : part));
      sum += list.taken_off ? -value : value;
      const std::uint32_t counted = (list.taken_off ? impact - 1 : impact) * list.weight >> 8;
      counter += list.taken_off ? -static_cast<long>(counted) : static_cast<long>(counted);
      (list.taken_off ? lowest : highest) += counted;
    }
    const double units = sum / scale.unit;
    REQUIRE(units <= static_cast<double>(counter) + scale.margin);
    REQUIRE(static_cast<double>(counter) <= units + scale.spread);
    REQUIRE(highest <= 32767);
    REQUIRE(lowest <= 32767);
  }
  CHECK(served > 10000);
}

// How far the rows that pass a filter are taken to lie, by what was counted of lists.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/ivf/surroundings.h"

using namespace warplite;
using namespace warplite::engine;

namespace {

constexpr std::uint32_t kLists = 1024, kRowsOfList = 100;
constexpr std::uint64_t kRows = std::uint64_t{kLists} * kRowsOfList;

// The nearest rows of a share lie in the nearest lists: the larger it is, the more of them.
index::Calibration::Table table() {
  index::Calibration::Table table;
  table.shares = {1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f};
  for (std::uint32_t look = 1; look <= kLists; look *= 2) table.looks.push_back(look);
  for (const float share : table.shares) {
    const double lists = 8 * std::pow(static_cast<double>(share) / 1e-5, 0.3);
    for (const std::uint32_t look : table.looks) {
      table.found.push_back(
          {static_cast<float>(1 - std::exp(-static_cast<double>(look) / lists)), 0});
    }
  }
  return table;
}

// Lists that were probed, `live` rows of each, and `near` of the nearest ones.
std::vector<compute::ProbedList> lists(std::size_t count, std::uint32_t live, std::uint32_t near,
                                       std::size_t near_lists) {
  std::vector<compute::ProbedList> lists(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (compute::IvfWork::counts_list(i)) lists[i] = {kRowsOfList, i < near_lists ? near : live};
  }
  return lists;
}

}  // namespace

TEST_CASE("surroundings: rows that pass everywhere alike are the nearest of the share they are") {
  const Passing of{kRows, kRows / 10, 10};
  const Surroundings seen = surroundings_of(of, lists(128, 10, 10, 0), table(), 0);
  CHECK(seen.share == doctest::Approx(10.0 / (kRows / 10)).epsilon(0.03));
  CHECK(seen.beyond == doctest::Approx(1).epsilon(0.03));
  const index::Found found = seen.found(table(), 128);
  CHECK(found.part == doctest::Approx(table().at(seen.share, 128).part).epsilon(0.01));
}

TEST_CASE(
    "surroundings: where few near rows pass, a larger share is looked for, and more is missed") {
  const Passing of{kRows, kRows / 10, 10};
  double before = of.everywhere().share;
  for (const std::uint32_t near : {5u, 2u, 1u, 0u}) {
    const Surroundings seen = surroundings_of(of, lists(128, 10, near, 32), table(), 0);
    CAPTURE(near);
    CHECK(seen.share > before);
    CHECK(seen.beyond > 1);
    CHECK(seen.found(table(), 64).part < table().at(of.everywhere().share, 64).part);
    // What may be chance is not held against the lists.
    CHECK(surroundings_of(of, lists(128, 10, near, 32), table(), 2).share <= seen.share);
    before = seen.share;
  }
}

// Lists hold more of the near rows than of the far ones, of which less is to be expected than of all.
TEST_CASE("surroundings: rows that lie beyond a share are found as those beyond it are") {
  Passing of{kRows, kRows / 2, 10};
  of.least = 0.05;
  const auto found = [&](double nearer) {
    of.nearer = nearer;
    return surroundings_of(of, lists(128, 50, 50, 0), table(), 0).found(table(), 16).part;
  };
  const auto all = table().at(0.05, 16).part, inner = table().at(0.025, 16).part;
  CHECK(found(0) == doctest::Approx(all).epsilon(0.01));
  CHECK(found(0.025) == doctest::Approx(2 * all - inner).epsilon(0.02));
  CHECK(found(0.025) < found(0));
  // However little is left.
  CHECK(found(0.049) == found(0.05));
  CHECK(found(0.05) > 0);
}

TEST_CASE("surroundings: nothing is expected of rows farther than was measured") {
  const Passing of{kRows, kRows / 2, 10};
  const Surroundings none = surroundings_of({kRows, 90, 10}, lists(512, 0, 0, 0), table(), 0);
  CHECK(none.share > 0.1);
  CHECK(none.found(table(), 512).part == 0);
  CHECK(surroundings_of(of, lists(128, 50, 50, 0), table(), 0).found(table(), 128).part > 0.9f);
}

TEST_CASE("surroundings: all is found when every row that passes is in a list that was probed") {
  const Passing of{kRows, 400, 10};
  const Surroundings seen = surroundings_of(of, lists(32, 0, 50, 8), table(), 0);
  CHECK(seen.beyond == 0);
  CHECK(seen.found(table(), 32).part == 1);
}

TEST_CASE("surroundings: lists without rows tell nothing") {
  const Passing of{kRows, kRows / 10, 10};
  const std::vector<compute::ProbedList> empty(16);
  const Surroundings seen = surroundings_of(of, empty, table(), 2);
  CHECK(seen.share == doctest::Approx(of.everywhere().share).epsilon(0.05));
  CHECK(std::isfinite(seen.beyond));
}

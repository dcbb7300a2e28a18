// Where lists lie in a run, against what compute/ivf.h says of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "index/ivf/list_places.h"

using namespace warplite;
using compute::RabitqGroup;

namespace {

constexpr compute::IvfShape kRabitq{.dim = 8, .m = 2, .bits = 4, .planes = 4};

std::uint32_t groups_of(std::uint32_t begin, std::uint32_t end) {
  return RabitqGroup::end_of(end) - RabitqGroup::first_of(begin);
}

// Every list at a place of its own, in no more groups than its rows need; returns how many
// positions have no row.
std::uint32_t check_places(const std::vector<std::uint32_t>& rows) {
  const index::ListPlaces places = index::place_lists(kRabitq, rows);
  REQUIRE(places.begins.size() == rows.size() + 1);
  REQUIRE(places.ends.size() == rows.size());
  const std::uint32_t positions = places.begins.back();
  CHECK(positions % RabitqGroup::kRows == 0);
  std::vector<bool> seen(rows.size());
  std::uint32_t before = 0;
  for (const std::uint32_t list : places.order) {
    const std::uint32_t begin = places.begins[list], end = places.ends[list];
    CHECK(begin >= before);
    CHECK(groups_of(begin, end) == (rows[list] + 31) / 32);
    CHECK_FALSE(seen[list]);
    seen[list] = true;
    before = end;
  }
  CHECK(before <= positions);
  for (std::size_t list = 0; list < rows.size(); ++list) {
    CHECK(places.ends[list] - places.begins[list] == rows[list]);
    CHECK(places.ends[list] <= positions);
    CHECK(seen[list] == (rows[list] != 0));
  }
  return positions - std::accumulate(rows.begin(), rows.end(), 0u);
}

}  // namespace

TEST_CASE("list places: rows of a list in a group") {
  CHECK(RabitqGroup::rows_of(0, 32, 0) == 0xffffffffu);
  CHECK(RabitqGroup::rows_of(0, 1, 0) == 1);
  CHECK(RabitqGroup::rows_of(37, 40, 1) == 0xe0u);
  CHECK(RabitqGroup::rows_of(31, 65, 0) == 0x80000000u);
  CHECK(RabitqGroup::rows_of(31, 65, 1) == 0xffffffffu);
  CHECK(RabitqGroup::rows_of(31, 65, 2) == 1);
}

TEST_CASE("list places: lists of any length share groups, and little is lost") {
  CHECK(check_places({}) == 0);
  CHECK(check_places({0, 0}) == 0);
  CHECK(check_places({1}) == 31);
  CHECK(check_places({32, 64, 0, 32}) == 0);
  CHECK(check_places({33, 63, 40, 56}) == 0);
  CHECK(check_places({5, 27}) == 0);
  CHECK(check_places({1, 2, 3, 4, 5, 17, 33, 63}) == 0);
  CHECK(check_places(std::vector<std::uint32_t>(10, 17)) == 10 * 15);  // no two fit
  std::mt19937 random(1);
  for (const std::uint32_t most : {8u, 40u, 200u, 2000u}) {
    std::vector<std::uint32_t> rows(3000);
    for (std::uint32_t& each : rows) each = random() % (most + 1);
    CAPTURE(most);
    CHECK(check_places(rows) < 1500);
  }
}

TEST_CASE("list places: other lists are in order, and those of 4-bit codes begin at groups") {
  const std::vector<std::uint32_t> rows = {3, 0, 33, 32};
  const index::ListPlaces flat = index::place_lists({.dim = 8}, rows);
  CHECK(flat.begins == std::vector<std::uint32_t>{0, 3, 3, 36, 68});
  const index::ListPlaces coded = index::place_lists({.dim = 8, .m = 2, .bits = 4}, rows);
  CHECK(coded.begins == std::vector<std::uint32_t>{0, 32, 32, 96, 128});
  CHECK(coded.ends == std::vector<std::uint32_t>{3, 32, 65, 128});
}

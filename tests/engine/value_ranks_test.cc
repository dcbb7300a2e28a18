// Ranks of a column's values against a sorted list of them.
#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <vector>

#include "engine/match/value_ranks.h"

using namespace warplite;
using namespace warplite::engine;

namespace {

// Checks that ranks ascend with values, that equal values share theirs, and that NULL comes last.
template <class Get>
void check(const Column& column, const Get& get) {
  std::vector<std::uint16_t> ranks(column.size());
  const Column values = rank_values(column, ranks.data());
  using Value = std::decay_t<decltype(get(column, 0))>;
  std::vector<Value> distinct;
  bool null = false;
  for (std::size_t row = 0; row < column.size(); ++row) {
    if (column.is_null(row)) null = true;
    else distinct.push_back(get(column, row));
  }
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  REQUIRE(values.size() == distinct.size() + (null ? 1 : 0));
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    REQUIRE(!values.is_null(i));
    REQUIRE(get(values, i) == distinct[i]);
  }
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < column.size(); ++row) {
    wrong += column.is_null(row) ? ranks[row] != distinct.size()
                                 : get(column, row) != distinct[ranks[row]];
  }
  CHECK(wrong == 0);
  CHECK(values.type() == column.type());
}

const auto integer = [](const Column& column, std::size_t row) { return column.integers()[row]; };
const auto real = [](const Column& column, std::size_t row) { return column.reals()[row]; };
const auto text = [](const Column& column, std::size_t row) { return std::string(column.text(row)); };

}  // namespace

TEST_CASE("value ranks: few values and many, with NULL and without") {
  std::mt19937_64 random(1);
  for (const std::size_t rows : {1, 2, 300, 65536}) {
    for (const std::int64_t span : {1, 7, 5000, 1 << 30}) {
      for (const bool nulls : {false, true}) {
        CAPTURE(rows);
        CAPTURE(span);
        Column integers(PlainType::kInteger), reals(PlainType::kReal), texts(PlainType::kText);
        for (std::size_t row = 0; row < rows; ++row) {
          const bool null = nulls && random() % 5 == 0;
          const auto n = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(span)) - 3;
          const std::string bytes = std::to_string(n);
          integers.append(null ? Cell::null() : Cell::of(n));
          reals.append(null ? Cell::null() : Cell::of(static_cast<double>(n) / 8));
          texts.append(null ? Cell::null() : Cell::text(bytes));
        }
        check(integers, integer);
        check(reals, real);
        check(texts, text);
      }
    }
  }
}

TEST_CASE("value ranks: every row another value, and what is the same in other bits") {
  Column column(PlainType::kInteger);
  for (std::int64_t row = 0; row < 65536; ++row) column.append(Cell::of((row * 40503) % 65536));
  check(column, integer);
  Column zeros(PlainType::kReal);
  for (const double value : {0.0, -0.0, 1e300, -1e300, 0.0}) zeros.append(Cell::of(value));
  check(zeros, real);
  Column nothing(PlainType::kText);
  for (int i = 0; i < 3; ++i) nothing.append(Cell::null());
  check(nothing, text);
}

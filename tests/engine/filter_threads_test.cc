// Predicates on a table so large that several threads test its rows.
#include <set>

#include "engine/filter/filter.h"
#include "tests/support/engine_fixture.h"

namespace warplite::engine {
namespace {

struct Counted {
  const char* what;
  Filter filter;
  bool (*passes)(std::int64_t n);  // whether row n is expected
};

bool has_integer(std::int64_t n) { return n % 7 != 0; }

TEST_CASE("a large table's rows are tested by several threads") {
  constexpr std::int64_t kRows = 300000;
  Database db;
  TableOptions options;
  options.layout.plains = {PlainType::kInteger, PlainType::kReal, PlainType::kText};
  options.layout.segment_rows = 10000;
  options.plain_names = {"i", "r", "t"};
  db.run("BEGIN");
  const auto table = Collection::create(db.get(), "main", "w", options);
  table->begin();
  for (std::int64_t n = 0; n < kRows; ++n) {
    const std::string text = "n" + std::to_string(n % 5000 * 777777777 % 5000);
    const Cell cells[] = {has_integer(n) ? Cell::of(n % 1000) : Cell::null(),
                          Cell::of(static_cast<double>(n % 512) / 4), Cell::text(text)};
    NewRow row;
    row.rowid = n;
    row.plains = cells;
    table->insert(row, OnConflict::kAbort);
    if (n == kRows - 2000) table->sync();
  }
  const auto integer = [](std::int64_t value) { return Value(Cell::of(value)); };
  const auto real = [](double value) { return Value(Cell::of(value)); };
  const auto text = [](const char* value) { return Value(Cell::text(value)); };
  using Op = Comparison;
  const Counted cases[] = {
      {"BETWEEN",
       {{0, Op::kGreaterEqual, {integer(100)}}, {0, Op::kLess, {integer(300)}}},
       [](std::int64_t n) { return has_integer(n) && n % 1000 >= 100 && n % 1000 < 300; }},
      {"BETWEEN nothing",
       {{0, Op::kGreater, {integer(300)}}, {0, Op::kLess, {integer(300)}}},
       [](std::int64_t) { return false; }},
      {"no such integer", {{0, Op::kEqual, {real(2.5)}}}, [](std::int64_t) { return false; }},
      {"IN few",
       {{0, Op::kIn, {integer(5), integer(6), integer(900)}}},
       [](std::int64_t n) {
         return has_integer(n) && (n % 1000 == 5 || n % 1000 == 6 || n % 1000 == 900);
       }},
      {"IN many",
       {{0, Op::kIn, {integer(0), integer(2), integer(4), integer(8), integer(16), integer(999)}}},
       [](std::int64_t n) {
         const std::int64_t i = n % 1000;
         return has_integer(n) && (i == 0 || i == 2 || i == 4 || i == 8 || i == 16 || i == 999);
       }},
      {"reals IN many",
       {{1, Op::kIn, {real(-0.0), real(0.25), real(1), real(2.5), real(77), real(99.75)}}},
       [](std::int64_t n) {
         const std::int64_t q = n % 512;
         return q == 0 || q == 1 || q == 4 || q == 10 || q == 308 || q == 399;
       }},
      {"text =",
       {{2, Op::kEqual, {text("n4097")}}},
       [](std::int64_t n) { return n % 5000 * 777777777 % 5000 == 4097; }},
      {"texts IN many",
       {{2,
         Op::kIn,
         {text("n1"), text("n22"), text("n333"), text("n4444"), text("n5"), text("x")}}},
       [](std::int64_t n) {
         const std::int64_t t = n % 5000 * 777777777 % 5000;
         return t == 1 || t == 22 || t == 333 || t == 4444 || t == 5;
       }},
      {"not equal, and less",
       {{0, Op::kNotEqual, {integer(7)}}, {1, Op::kLess, {integer(10)}}},
       [](std::int64_t n) { return has_integer(n) && n % 1000 != 7 && n % 512 < 40; }},
  };
  const auto view = table->view();
  for (const Counted& one : cases) {
    INFO(one.what);
    const Selection selection(*view, one.filter);
    std::set<RowId> expected, selected;
    for (std::int64_t n = 0; n < kRows; ++n) {
      if (one.passes(n)) expected.insert(n);
    }
    for (std::uint32_t i = 0; i < view->parts(); ++i) {
      const Selection::Rows& part = selection.part(i);
      CHECK(part.count == (part.all ? view->part(i).rows() : part.bits.count()));
      for (std::uint32_t row = 0; row < view->part(i).rows() && part.count != 0; ++row) {
        if (part.all || part.bits.test(row)) selected.insert(view->rowid({i, row}));
      }
    }
    CHECK(selected == expected);
  }
  db.run("ROLLBACK");
  table->rollback();
}

}  // namespace
}  // namespace warplite::engine

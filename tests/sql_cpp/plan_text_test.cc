// A plan as text, which EXPLAIN QUERY PLAN shows and xFilter decodes.
#include <doctest/doctest.h>

#include <string>

#include "sql/plan/plan.h"

using namespace warplite;
using engine::Comparison;
using engine::Predicate;
using sql::Plan;

TEST_CASE("plan: text and back") {
  const sql::TableDefinition table = [] {
    sql::TableDefinition t;
    t.table = "t";
    for (const char* name : {"e", "a b", "rowid", "quote\"d", "größe", "in, (or) not", "k9"}) {
      sql::ColumnDefinition column;
      column.name = name;
      t.columns.push_back(column);
    }
    return t;
  }();
  Plan plan;
  plan.access = Plan::Access::kKnn;
  plan.column = 0;
  for (int column = Predicate::kRowId; column < 7; ++column) {
    plan.filters.push_back({column, Comparison::kEqual, Collation::kNoCase});
    plan.filters.push_back({column, Comparison::kIn, Collation::kRTrim});
  }
  for (int op = 0; op <= static_cast<int>(Comparison::kGlob); ++op) {
    plan.filters.push_back({op % 7, static_cast<Comparison>(op), Collation::kBinary});
  }
  plan.filters.push_back({1, Comparison::kLike, Collation::kBinary, true});
  plan.filters.push_back({1, Comparison::kGlob, Collation::kBinary, true});
  plan.bounds = {Comparison::kGreater, Comparison::kLessEqual};
  for (unsigned flags = 0; flags < 32; ++flags) {
    plan.k = flags & 1;
    plan.nprobe = flags & 2;
    plan.limit = flags & 4;
    plan.offset = flags & 8;
    plan.recall = flags & 16;
    const std::string text = plan.text(table);
    CAPTURE(text);
    const Plan back = Plan::parse(text, table);
    CHECK(back.text(table) == text);
    REQUIRE(back.filters.size() == plan.filters.size());
    for (std::size_t i = 0; i < plan.filters.size(); ++i) {
      CHECK(back.filters[i].column == plan.filters[i].column);
      CHECK(back.filters[i].op == plan.filters[i].op);
      CHECK(back.filters[i].collation == plan.filters[i].collation);
      CHECK(back.filters[i].overloaded == plan.filters[i].overloaded);
    }
    CHECK(back.bounds == plan.bounds);
    CHECK(back.access == plan.access);
    CHECK(back.column == plan.column);
    CHECK(back.k == plan.k);
    CHECK(back.nprobe == plan.nprobe);
    CHECK(back.recall == plan.recall);
    CHECK(back.offset == plan.offset);
  }
  plan = {};
  plan.access = Plan::Access::kRefused;
  plan.refusal = "k needs \"it\" filter(";
  CHECK(Plan::parse(plan.text(table), table).access == plan.access);
  CHECK(Plan::parse(plan.text(table), table).refusal == plan.refusal);
  CHECK_THROWS(Plan::parse("knn(e flat) filter(nothing=)", table));
  CHECK_THROWS(Plan::parse("knn(e flat) k k", table));
  CHECK_THROWS(Plan::parse("", table));
}

// LIKE and GLOB where they are not SQLite's own: what the connection's functions say, for every
// value, whether the table or SQLite applies them.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <string>
#include <vector>

#include "tests/support/sql_session.h"

namespace warplite {
namespace {

using testing::SqlSession;
using Rows = std::vector<std::string>;

// like(pattern, value): value begins with the pattern's first byte, or is NULL.
void same_first(sqlite3_context* context, int, sqlite3_value** argv) {
  const auto* pattern = reinterpret_cast<const char*>(sqlite3_value_text(argv[0]));
  const auto* value = reinterpret_cast<const char*>(sqlite3_value_text(argv[1]));
  sqlite3_result_int(context, value == nullptr || (pattern != nullptr && *pattern == *value));
}

void fail(sqlite3_context* context, int, sqlite3_value**) {
  sqlite3_result_error(context, "no patterns today", -1);
}

void overload(const SqlSession& db, const char* name, int arguments, int encoding = SQLITE_UTF8,
              void (*function)(sqlite3_context*, int, sqlite3_value**) = same_first) {
  REQUIRE(sqlite3_create_function_v2(db.db(), name, arguments, encoding, nullptr, function, nullptr,
                                     nullptr, nullptr) == SQLITE_OK);
}

// t is a warp table, p an ordinary one of the same rows.
void fill(const SqlSession& db) {
  db.must_run("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[1], s TEXT, n "
              "INTEGER, r REAL);"
              "CREATE TABLE p(id INTEGER PRIMARY KEY, s TEXT, n INTEGER, r REAL);"
              "INSERT INTO p VALUES (1, 'abc', 12, 1.5), (2, 'Abd', 21, 0.1), (3, NULL, NULL, NULL),"
              "(4, 'xyz', 13, 9e999), (5, 'a', -1, -9e999);"
              "INSERT INTO t SELECT id, '[' || id || ']', s, n, r FROM p");
}

const char* const kTerms[] = {"s LIKE 'a'",  "s LIKE 'abX%'", "s GLOB 'x*'", "s GLOB 'a*'",
                              "n LIKE '1'",  "n GLOB '1*'",   "r LIKE '1%'", "r LIKE 'i%'",
                              "r GLOB '-*'", "id LIKE '3x'",  "s LIKE NULL", "s LIKE x'61'"};

void compare(const SqlSession& db) {
  for (const std::string term : kTerms) {
    CAPTURE(term);
    const Rows expected = db.must_run("SELECT id FROM p WHERE " + term);
    CHECK(db.must_run("SELECT id FROM t WHERE " + term) == expected);
    CHECK(db.must_run("SELECT id FROM t WHERE e MATCH '[0]' AND " + term) == expected);
    Rows nearest = expected;
    if (nearest.size() > 1) nearest.resize(1);
    CHECK(db.must_run("SELECT id FROM t WHERE e MATCH '[0]' AND k = 1 AND " + term) == nearest);
  }
}

TEST_CASE("patterns: SQLite's own LIKE and GLOB") {
  const SqlSession db(":memory:");
  fill(db);
  compare(db);
  db.must_run("PRAGMA case_sensitive_like = 1");
  compare(db);
  db.must_run("PRAGMA case_sensitive_like = 0");
  compare(db);
  const std::string plan =
      db.must_run("EXPLAIN QUERY PLAN SELECT id FROM t WHERE s LIKE '%x' AND s GLOB '*y'")[0];
  CHECK_MESSAGE(plan.ends_with("filter(s GLOB,s LIKE)"), plan);
}

TEST_CASE("patterns: an application's functions") {
  for (const char* name : {"like", "glob"}) {
    for (const int arguments : {2, -1}) {
      for (const int encoding : {SQLITE_UTF8, SQLITE_UTF16}) {
        const SqlSession db(":memory:");
        fill(db);
        overload(db, name, arguments, encoding);
        compare(db);
      }
    }
  }
}

TEST_CASE("patterns: a statement that was prepared before the function") {
  const SqlSession db(":memory:");
  fill(db);
  sqlite3_stmt* statement = nullptr;
  REQUIRE(sqlite3_prepare_v2(db.db(), "SELECT count(*) FROM t WHERE s LIKE 'aq'", -1, &statement,
                             nullptr) == SQLITE_OK);
  const auto count = [&] {
    REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
    const int rows = sqlite3_column_int(statement, 0);
    sqlite3_reset(statement);
    return rows;
  };
  CHECK(count() == 0);
  overload(db, "like", 2);
  CHECK(count() == 3);  // abc, a and NULL
  sqlite3_finalize(statement);
}

TEST_CASE("patterns: the function's errors are the statement's") {
  const SqlSession db(":memory:");
  fill(db);
  overload(db, "like", 2, SQLITE_UTF8, fail);
  CHECK(db.run("SELECT id FROM t WHERE s LIKE 'a'").message == "no patterns today");
  CHECK(db.must_run("SELECT count(*) FROM t WHERE id = 77 AND s LIKE 'a'") == Rows{"0"});
}

// An authorizer that keeps the planner from finding out makes nothing wrong.
TEST_CASE("patterns: where it cannot be known whose they are") {
  const SqlSession db(":memory:");
  fill(db);
  overload(db, "like", 2);
  sqlite3_set_authorizer(
      db.db(),
      [](void*, int action, const char* table, const char* column, const char*, const char*) {
        const bool rowid = action == SQLITE_READ && std::string(table) == "t" && column != nullptr &&
                           std::string(column) == "ROWID";
        return rowid ? SQLITE_DENY : SQLITE_OK;
      },
      nullptr);
  CHECK(db.must_run("SELECT s FROM t WHERE s LIKE 'aq'") ==
        db.must_run("SELECT s FROM p WHERE s LIKE 'aq'"));
  sqlite3_set_authorizer(db.db(), nullptr, nullptr);
}

}  // namespace
}  // namespace warplite

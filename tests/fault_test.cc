// Every allocation that a statement makes fails once, and once for good: no crash, no wrong row,
// and the table stays in one of the states that the statements lead through.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/residency.h"
#include "tests/failing_allocator.h"
#include "tests/sql_session.h"

namespace warplite::testing {
namespace {

constexpr const char* kSetUp =
    "CREATE VIRTUAL TABLE t USING warp(word TEXT PRIMARY KEY, e FLOAT[4], n INTEGER, s TEXT, +note);"
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 1500) "
    "INSERT INTO t SELECT 'w' || x, '[' || x || ',0,0,1]', x % 5, 's' || x, 'note' || x FROM c;"
    "INSERT INTO t(t) VALUES ('optimize');"
    "INSERT INTO t VALUES ('late', '[0,0,0,0]', 7, 'tail', 'x')";

constexpr const char* kState =
    "SELECT count(*), sum(n), group_concat(substr(word, 1, 2)) FROM t;"
    "SELECT word, distance, note FROM t WHERE e MATCH '[0,0,0,0]' AND k = 12;"
    "SELECT word, note FROM t WHERE word = 'w700';"
    "SELECT count(*) FROM t WHERE e MATCH '[0,0,0,0]' AND n = 3";

// Statements, run one after another until one fails.
struct Scenario {
  const char* name;
  std::vector<std::string> statements;
};

const Scenario kScenarios[] = {
    {"search", {"SELECT word, distance, note FROM t WHERE e MATCH '[9,0,0,0]' AND n IN (1, 2) AND k = 7"}},
    {"stream", {"SELECT count(*), max(distance) FROM t WHERE e MATCH '[9,0,0,0]' AND s LIKE '%9%'"}},
    {"functions", {"SELECT rowid, distance, rank FROM warp_knn_search('t', 'e', '[1,1,1,1]', 5)",
                   "SELECT * FROM warp_knn_join('t', 'e', 'SELECT rowid, e FROM t WHERE n = 7', 3)",
                   "SELECT vec_to_json(vec_normalize(vec_add('[1,2]', '[3,4]')))"}},
    {"insert", {"INSERT INTO t VALUES ('a', '[1,1,1,1]', 1, 'a', 'a'), ('b', '[2,2,2,2]', 2, 'b', 'b')",
                "INSERT OR REPLACE INTO t VALUES ('w700', '[0,0,0,1]', 0, 'new', 'new')"}},
    {"change", {"UPDATE t SET e = '[3,3,3,3]', note = 'moved' WHERE word = 'w3'",
                "DELETE FROM t WHERE n = 4", "UPDATE t SET word = 'other' WHERE word = 'late'"}},
    {"transaction", {"BEGIN", "DELETE FROM t WHERE n = 1", "SAVEPOINT s",
                     "INSERT INTO t SELECT word || 'x', e, n, s, note FROM t WHERE n = 2",
                     "ROLLBACK TO s", "INSERT INTO t(word, e) VALUES ('last', '[0,0,0,0]')", "COMMIT"}},
    {"commands", {"INSERT INTO t(t) VALUES ('optimize')", "INSERT INTO t(t) VALUES ('rebuild')",
                  "INSERT INTO t(t) VALUES ('integrity-check')"}},
    {"tables", {"ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t",
                "CREATE VIRTUAL TABLE v USING warp(e FLOAT[2], s TEXT)", "DROP TABLE v"}},
};

std::string joined(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += row + "\n";
  return text;
}

// The states and answers that a scenario leads through when nothing fails.
struct Course {
  std::vector<std::string> states;   // before any statement, and after each one
  std::vector<std::string> answers;  // of each statement
};

Course undisturbed(const std::vector<unsigned char>& image, const Scenario& scenario) {
  const SqlSession session(image);
  Course course;
  const auto note = [&] {
    const SqlResult state = session.run(kState);
    course.states.push_back(state.ok() ? joined(state.rows) : "no table");
  };
  note();
  for (const std::string& statement : scenario.statements) {
    course.answers.push_back(joined(session.must_run(statement)));
    note();
  }
  return course;
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Runs statements until one fails, with one fault somewhere on the way; returns their results.
std::vector<SqlResult> run_statements(const SqlSession& session, const Scenario& scenario,
                                      Allocator allocator, long nth, bool forever, bool& fired) {
  std::vector<SqlResult> results;
  results.reserve(scenario.statements.size());
  const AllocationFault fault(allocator, nth, forever);
  try {
    for (const std::string& statement : scenario.statements) {
      results.push_back(session.run(statement));
      if (!results.back().ok()) break;
    }
  } catch (const std::bad_alloc&) {
    // This test's own strings: what was not returned is not checked.
  }
  fired = fault.fired();
  return results;
}

// True when the fault was never reached.
bool run_with_fault(const std::vector<unsigned char>& image, const Scenario& scenario,
                    const Course& course, Allocator allocator, long nth, bool forever) {
  INFO(scenario.name, ", allocation ", nth, forever ? " and all after it" : " alone",
       allocator == Allocator::kSqlite ? " of SQLite" : " of C++");
  engine::Residency::instance().clear();
  const SqlSession session(image);
  bool fired = false;
  const auto results = run_statements(session, scenario, allocator, nth, forever, fired);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) CHECK(joined(results[i].rows) == course.answers[i]);
    if (!results[i].ok()) CHECK_MESSAGE(fired, results[i].message);
  }
  const SqlResult state = session.run(kState);
  const std::string shown = state.ok() ? joined(state.rows) : "no table";
  CHECK_MESSAGE(contains(course.states, shown), state.message, shown);
  session.run("ROLLBACK");
  const std::string table = session.run("SELECT 1 FROM t LIMIT 1").ok() ? "t" : "u";
  const SqlResult next = session.run(
      "BEGIN; INSERT INTO " + table + " VALUES ('next', '[0,0,0,0]', 1, 's', 'n');"
      "UPDATE " + table + " SET n = 99 WHERE word = 'next';"
      "SELECT n, note FROM " + table + " WHERE word = 'next'; COMMIT;"
      "INSERT INTO " + table + "(" + table + ") VALUES ('integrity-check')");
  CHECK_MESSAGE(next.ok(), next.message);
  CHECK(joined(next.rows) == "99|n\n");
  return !fired;
}

// Of the cache, once every connection is closed: a name here is a leak.
std::string entries_in_use() {
  std::string names;
  for (const engine::Residency::Entry& entry : engine::Residency::instance().entries()) {
    if (entry.in_use) names += entry.owner + "; ";
  }
  return names;
}

}  // namespace

TEST_CASE("failed allocations leave the table whole") {
  const SqlSession session(":memory:");
  session.must_run(kSetUp);
  const std::vector<unsigned char> image = session.image();
  for (const Scenario& scenario : kScenarios) {
    SUBCASE(scenario.name) {
      const Course course = undisturbed(image, scenario);
      for (const Allocator allocator : {Allocator::kSqlite, Allocator::kCpp}) {
        for (const bool forever : {false, true}) {
          long nth = 0;
          while (!run_with_fault(image, scenario, course, allocator, nth, forever)) {
            INFO("after allocation ", nth, forever ? " and all after it" : "");
            CHECK(entries_in_use() == "");
            nth += 1 + nth / 16;
          }
          CHECK(nth > 3);
        }
      }
    }
  }
}

}  // namespace warplite::testing

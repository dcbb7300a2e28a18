// Every allocation that a statement makes fails once, and once for good: no crash, no wrong row,
// and the table stays in one of the states that the statements lead through.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/residency/residency.h"
#include "tests/support/fakes/failing_allocator.h"
#include "tests/support/fakes/fault_scenarios.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

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

// What a world's tables hold; empty while one has another name.
std::string state_of(const SqlSession& session, const World& world) {
  const SqlResult state = session.run(world.state);
  return state.ok() ? joined(state.rows) : "";
}

Course undisturbed(const std::vector<unsigned char>& image, const World& world,
                   const Scenario& scenario) {
  const SqlSession session(image);
  Course course;
  const auto note = [&] { course.states.push_back(state_of(session, world)); };
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

// Whether the tables can be used, under their own names if a scenario left them with others.
void check_usable(const SqlSession& session, const World& world) {
  session.run("ROLLBACK");
  for (const char* rename : {"u RENAME TO t", "z RENAME TO x", "d RENAME TO c"}) {
    session.run(std::string("ALTER TABLE ") + rename);
  }
  const SqlResult used = session.run(world.usable);
  CHECK_MESSAGE(used.ok(), used.message);
}

// True when the fault was never reached.
bool run_with_fault(const std::vector<unsigned char>& image, const World& world,
                    const Scenario& scenario, const Course& course, Allocator allocator, long nth,
                    bool forever) {
  const std::string fault = std::string(world.name) + ", " + scenario.name + ", allocation " +
                            std::to_string(nth) + (forever ? " and all after it" : " alone") +
                            (allocator == Allocator::kSqlite ? " of SQLite" : " of C++");
  INFO(fault);
  engine::Residency::instance().clear();
  const SqlSession session(image);
  bool fired = false;
  const auto results = run_statements(session, scenario, allocator, nth, forever, fired);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(scenario.statements[i]);
    if (results[i].ok()) CHECK(joined(results[i].rows) == course.answers[i]);
    if (!results[i].ok()) CHECK_MESSAGE(fired, results[i].message);
  }
  const std::string state = state_of(session, world);
  CHECK_MESSAGE(contains(course.states, state), state);
  check_usable(session, world);
  return !fired;
}

// Of the cache, once every connection is closed: a name here is a leak.
std::string entries_in_use() {
  engine::Residency::instance().clear();
  std::string names;
  for (const engine::Residency::Entry& entry : engine::Residency::instance().entries()) {
    if (entry.in_use) names += entry.owner + "; ";
  }
  return names;
}

std::vector<unsigned char> image_of(const World& world) {
  const SqlSession session(":memory:");
  session.must_run(world.set_up);
  return session.image();
}

// Which allocations fail: every one where WARPLITE_EVERY_ALLOCATION is set, else fewer the later.
long next_allocation(long nth) {
  static const bool every = std::getenv("WARPLITE_EVERY_ALLOCATION") != nullptr;
  return nth + 1 + (every ? 0 : nth / 5);
}

void fail_allocations(const std::vector<unsigned char>& image, const World& world,
                      const Scenario& scenario) {
  const Course course = undisturbed(image, world, scenario);
  for (const bool forever : {false, true}) {
    for (const Allocator allocator : {Allocator::kCpp, Allocator::kSqlite}) {
      long nth = 0;
      while (!run_with_fault(image, world, scenario, course, allocator, nth, forever)) {
        INFO(std::string(scenario.name), ", after allocation ", nth);
        CHECK(entries_in_use() == "");
        nth = next_allocation(nth);
      }
      CHECK(nth > 3);
    }
  }
}

// A sub-case for each scenario.
void run_world(const World& world) {
  const std::vector<unsigned char> image = image_of(world);
  for (const Scenario& scenario : world.scenarios) {
    SUBCASE(scenario.name) { fail_allocations(image, world, scenario); }
  }
}

}  // namespace

TEST_CASE("failed allocations leave tables whole: rows") { run_world(rows_world()); }
TEST_CASE("failed allocations leave tables whole: vectors") { run_world(vectors_world()); }
TEST_CASE("failed allocations leave tables whole: texts") { run_world(texts_world()); }
TEST_CASE("failed allocations leave tables whole: rankings") { run_world(rankings_world()); }
TEST_CASE("failed allocations leave tables whole: content=") { run_world(content_world()); }
TEST_CASE("failed allocations leave tables whole: imports") { run_world(imports_world()); }

}  // namespace warplite::testing

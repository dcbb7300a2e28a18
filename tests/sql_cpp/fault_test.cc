// Every allocation that a statement makes fails once, and once for good: no crash, no wrong row,
// and the table stays in one of the states that the statements lead through.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "engine/residency/residency.h"
#include "tests/support/fakes/failing_allocator.h"
#include "tests/support/fakes/fault_course.h"

namespace warplite::testing {
namespace {

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
  check_results(scenario, course, results, fired);
  check_state(session, world, course.states);
  check_usable(session, world);
  return !fired;
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
        check_nothing_in_use();
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
TEST_CASE("failed allocations leave tables whole: segments") { run_world(segments_world()); }
TEST_CASE("failed allocations leave tables whole: imports") { run_world(imports_world()); }

}  // namespace warplite::testing

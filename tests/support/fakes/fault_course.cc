#include "tests/support/fakes/fault_course.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "engine/residency/residency.h"

namespace warplite::testing {

std::string joined(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += row + "\n";
  return text;
}

std::vector<unsigned char> image_of(const World& world) {
  const SqlSession session(":memory:");
  session.must_run(world.set_up);
  return session.image();
}

Course undisturbed(const std::vector<unsigned char>& image, const World& world,
                   const Scenario& scenario) {
  const SqlSession session(image);
  Course course;
  const auto note = [&] {
    course.states.push_back(state_of(session, world));
    course.in_transaction.push_back(in_transaction(session));
  };
  note();
  for (const std::string& statement : scenario.statements) {
    course.answers.push_back(joined(session.must_run(statement)));
    note();
  }
  return course;
}

bool in_transaction(const SqlSession& session) {
  return sqlite3_get_autocommit(session.db()) == 0;
}

std::string state_of(const SqlSession& session, const World& world) {
  const SqlResult state = session.run(world.state);
  if (!state.ok()) return "";
  const SqlResult schema = session.run("SELECT type, name, sql FROM sqlite_schema ORDER BY name");
  const SqlResult made = session.run("SELECT count(*) FROM v");  // scenarios name their tables so
  return joined(state.rows) + joined(schema.rows) + joined(made.rows);
}

std::string check_state(const SqlSession& session, const World& world,
                        const std::vector<std::string>& lawful) {
  std::string state = state_of(session, world);
  CHECK_MESSAGE(std::find(lawful.begin(), lawful.end(), state) != lawful.end(), state);
  return state;
}

void check_results(const Scenario& scenario, const Course& course,
                   const std::vector<SqlResult>& results, bool fired, std::size_t first) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(scenario.statements[first + i]);
    if (results[i].ok()) CHECK(joined(results[i].rows) == course.answers[first + i]);
    if (!results[i].ok()) CHECK_MESSAGE(fired, results[i].message);
  }
}

void check_usable(const SqlSession& session, const World& world) {
  session.run("ROLLBACK");
  for (const char* rename : {"u RENAME TO t", "z RENAME TO x", "d RENAME TO c"}) {
    session.run(std::string("ALTER TABLE ") + rename);
  }
  const SqlResult used = session.run(world.usable);
  CHECK_MESSAGE(used.ok(), used.message);
}

void check_nothing_in_use() {
  engine::Residency::instance().clear();
  std::string names;
  for (const engine::Residency::Entry& entry : engine::Residency::instance().entries()) {
    if (entry.in_use) names += entry.owner + "; ";
  }
  CHECK(names == "");
}

}  // namespace warplite::testing

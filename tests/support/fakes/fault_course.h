// What a scenario leads through when nothing fails, and what must hold wherever a fault ended it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/fakes/fault_scenarios.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {

struct Course {
  std::vector<std::string> states;   // before any statement, and after each one
  std::vector<bool> in_transaction;  // the same
  std::vector<std::string> answers;  // of each statement
};

std::vector<unsigned char> image_of(const World& world);
Course undisturbed(const std::vector<unsigned char>& image, const World& world,
                   const Scenario& scenario);

std::string joined(const std::vector<std::string>& rows);
bool in_transaction(const SqlSession& session);
// What a world's tables hold, and which tables and triggers there are; empty while one has another
// name, or nothing but a rollback is possible.
std::string state_of(const SqlSession& session, const World& world);
// The tables hold one of these states. Returns which.
std::string check_state(const SqlSession& session, const World& world,
                        const std::vector<std::string>& lawful);
// Each statement, from the `first` on, gave the right answer if it said OK, and failed only if
// there was a fault.
void check_results(const Scenario& scenario, const Course& course,
                   const std::vector<SqlResult>& results, bool fired, std::size_t first = 0);
// The tables can be used, under their own names if a scenario left them with others.
void check_usable(const SqlSession& session, const World& world);
// Once every connection is closed, none of what is in memory is in use: it would be a leak.
void check_nothing_in_use();

}  // namespace warplite::testing

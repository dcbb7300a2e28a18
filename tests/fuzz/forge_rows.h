// Changes of shadow tables as SQL makes them: any value in any column, rows that come, go, or stand
// for one another, tables that are something else. Threads: as the connection.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/forgery.h"
#include "tests/fuzz/fuzz_database.h"

namespace warplite::fuzzing {

// What counters tend to be wrong by.
std::int64_t changed(std::int64_t value, Input& input);

// A value of a tail row, its checksum made right.
void change_tail(testing::Forgery& table, Input& input);

// Rows of any shadow table, or of the table that content= names.
void change_rows(testing::Forgery& table, Input& input);

}  // namespace warplite::fuzzing

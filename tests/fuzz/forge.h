// What somebody may change in a file who knows the format: records, blocks, rows and definitions,
// with lengths, checksums and sums made right. An input's bytes choose what is changed, and how.
// Threads: as the connection.
#pragma once

#include <sqlite3.h>

#include "tests/support/forgery.h"
#include "tests/fuzz/fuzz_database.h"

namespace warplite::fuzzing {

// One change of `table`, or of both. Throws Error{kCorrupt} when what an earlier change left cannot
// be decoded any more.
void forge(testing::Forgery& table, testing::Forgery& other, Input& input);

// Another definition of the table, or of one of its shadow tables. A connection that has read the
// schema does not notice.
void forge_schema(sqlite3* db, const std::string& table, Input& input);

}  // namespace warplite::fuzzing

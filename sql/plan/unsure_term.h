// SQLite before 3.38 tells planning of no term whether it is IN. Where k is given and a term is not at hand, that
// decides the rows: what IN leaves should be searched, while a comparison with another table joins afterwards. So
// such a plan runs if nothing that runs can hold an IN, by its words, and else says what to write.
// Threads: as the connection.
#pragma once

#include <string>

#include "sql/definition/definition.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

// Throws Error{kInvalid} if the term on `column` may be IN. REQUIRES: the statement that the term is of
// runs.
void check_unsure_term(sqlite3* db, const TableDefinition& table, const std::string& column);

}  // namespace warplite::sql

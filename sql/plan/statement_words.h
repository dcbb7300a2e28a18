// What SQLite does not tell a plan, the words of the statement that runs may: with the views and the
// triggers that may belong to it, as SQLite keeps them. Words are not a parse: one that stands for
// something else makes an answer slower, or refuses it.
// Threads: as the connection.
#pragma once

#include <string>

#include "sql/definition/definition.h"
#include "sql/plan/plan.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

// SQLite before 3.38 tells planning of no term whether it is IN. Where k is given and a term is not at
// hand, that decides the rows: what IN leaves should be searched, while a comparison with another table
// joins afterwards. So such a plan runs if nothing that runs can hold an IN, and else says what to write.
// Throws Error{kInvalid} if the term on `column` may be IN. REQUIRES: the statement that the term is of
// runs.
void check_unsure_term(sqlite3* db, const TableDefinition& table, const std::string& column);

// What the statement that runs says of the rows that it reads of a search without k. REQUIRES: the statement
// runs, and is planned as the table's `memo` knows; `ordered`: SQLite relies on the order of the rows,
// and it is asked whether that is to be the whole one.
// Throws Error{kInterrupted}.
StatementReads reads_of_statement(sqlite3* db, const TableDefinition& table, bool ordered,
                                  SearchMemo& memo);

}  // namespace warplite::sql

// Table-valued functions: the list is in table_functions.cc, each has a file of its own.
#pragma once

#include "sql/table/context.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

// Registers all of them on a connection; `context` lives as long as it. Returns a SQLite result
// code.
int register_table_functions(sqlite3* db, Context* context);

}  // namespace warplite::sql

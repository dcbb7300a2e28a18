// warp_model(table, column) and warp_use_model(table, column, model): what an index has learnt, as a
// BLOB, and for a table that has learnt nothing. Two tables with one model give the same codes to the
// same rows.
// Threads: as the connection.
#pragma once

#include "storage/sqlite_api.h"

namespace warplite::sql {

class Context;

// Returns an SQLite result code. REQUIRES: the context lives as long as the connection.
int register_model_functions(sqlite3* db, Context* context);

}  // namespace warplite::sql

// warp_import_vec0(table [, new_table]): a warp table with the columns and the rows of a vec0 table
// of sqlite-vec, which need not be loaded; returns how many rows. new_table is table_warp unless
// given, and stands in the same schema unless it names one. All or nothing. The vec0 table stays as
// it is, unless new_table is itself: then it is converted, under the module vec0.
// Threads: as the connection.
#pragma once

#include "sql/table/context.h"

namespace warplite::sql {

// Writes, and therefore never from views and triggers. `context` outlives the function.
// Returns a SQLite result code.
int register_import_vec0(sqlite3* db, Context* context);

}  // namespace warplite::sql

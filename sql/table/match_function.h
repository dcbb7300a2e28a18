// match/2, the function behind MATCH, for the cases in which SQLite does not hand the
// operator to xBestIndex.
#pragma once

#include "storage/sqlite_api.h"

namespace warplite::sql {

// Registers match/2 as innocuous, so that MATCH works in views and triggers under
// trusted_schema=off. Returns a SQLite result code.
int register_match_function(sqlite3* db);

// xFindFunction: match() on a column of a warp table.
int find_match_function(sqlite3_vtab* vtab, int argc, const char* name,
                        void (**function)(sqlite3_context*, int, sqlite3_value**), void** data);

}  // namespace warplite::sql

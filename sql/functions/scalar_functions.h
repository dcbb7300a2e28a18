// vec_*, edit_distance, warp_version, warp_config: the list is in scalar_functions.cc.
#pragma once

#include "storage/sqlite_api.h"

namespace warplite::sql {

// Registers all of them on a connection. `version` is what warp_version() says; it
// lives as long as the process. Returns a SQLite result code.
int register_scalar_functions(sqlite3* db, const char* version);
// vec_version() and vec_debug(), for programs that were written for sqlite-vec: the version of it
// whose SQL holds here, and that this is another extension.
int register_vec0_versions(sqlite3* db);

}  // namespace warplite::sql

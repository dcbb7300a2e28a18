// The one visible list of devices, index kinds, modules and functions.
#pragma once

#include "storage/sqlite_api.h"

namespace warplite {

// Once per process: devices and index kinds.
void register_process_parts();
// Once per connection: modules and functions. Returns a SQLite result code; *message
// is set on failure (sqlite3_free).
int register_connection_parts(sqlite3* db, char** message);

}  // namespace warplite

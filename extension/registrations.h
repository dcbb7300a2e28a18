// The one visible list of devices, index kinds, modules and functions.
#pragma once

#include "storage/sqlite_api.h"

namespace warplite {

// Registers devices and index kinds; called once per process.
void register_process_parts();
// Registers modules and functions; called once per connection. Returns a SQLite result code;
// *message is set on failure (sqlite3_free).
int register_connection_parts(sqlite3* db, char** message);

}  // namespace warplite

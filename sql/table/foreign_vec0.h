// A vec0 table that sqlite-vec wrote, met by the module vec0 of this extension: it can be dropped, and
// converted by warp_import_vec0 (sql/vec0/import_vec0.h). Anything else is refused in words.
// Threads: as the connection. Errors: Error{kHost} with SQLite's own message.
#pragma once

#include <string>

#include "sql/definition/definition.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

// What sqlite-vec numbers: "vector_chunks", 3 is "vector_chunks03".
std::string numbered(const char* name, int number);

// Tells sqlite-vec's shadow tables from those of this extension, by their names.
bool is_foreign(sqlite3* db, const std::string& schema, const std::string& table);

// Throws Error{kUnsupported} that names the statement which converts the table.
[[noreturn]] void throw_foreign(const TableDefinition& table);

// Drops the shadow tables that sqlite-vec makes for such a definition.
void drop_foreign_tables(sqlite3* db, const TableDefinition& table);

}  // namespace warplite::sql

// What SQLite tells from some version on only, and what stands for it before. The table of routines
// that a library hands over ends where its version does: a later routine is called nowhere but here,
// or after tells_operands().
// Threads: as the connection.
#pragma once

#include <cstdint>
#include <string>

#include "storage/sqlite_api.h"

namespace warplite::sql {

// Whether planning is told which terms are IN, and values that are known (sqlite3_vtab_in(),
// sqlite3_vtab_rhs_value()).
inline bool tells_operands() { return sqlite3_libversion_number() >= 3038000; }

// Differs from what it was if this connection has changed rows since.
inline std::uint64_t total_changes(sqlite3* db) {
  return sqlite3_libversion_number() >= 3037000
             ? static_cast<std::uint64_t>(sqlite3_total_changes64(db))
             : static_cast<std::uint64_t>(sqlite3_total_changes(db));
}

inline bool has_schema(sqlite3* db, const std::string& schema) {
  return sqlite3_stricmp(schema.c_str(), "temp") == 0 || sqlite3_db_readonly(db, schema.c_str()) >= 0;
}

// Whether the schema's file is as others see it too: there is nothing yet that may be rolled back. An
// older host is asked more than this file: whether anything is open.
inline bool is_settled(sqlite3* db, const std::string& schema) {
  if (sqlite3_libversion_number() >= 3034000) {
    return sqlite3_txn_state(db, schema.c_str()) != SQLITE_TXN_WRITE;
  }
  if (sqlite3_get_autocommit(db) == 0) return false;
  for (sqlite3_stmt* statement = sqlite3_next_stmt(db, nullptr); statement != nullptr;
       statement = sqlite3_next_stmt(db, statement)) {
    if (sqlite3_stmt_busy(statement) && !sqlite3_stmt_readonly(statement)) return false;
  }
  return true;
}

}  // namespace warplite::sql

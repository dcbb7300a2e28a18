// A prepared statement that ends with its scope.
// Threads: as the connection. Errors: Error{kHost} with SQLite's own message.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/listing.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

// The first statement of `text`; *rest (when given) receives what follows it.
inline Statement prepare(sqlite3* db, std::string_view text, std::string_view* rest = nullptr) {
  sqlite3_stmt* raw = nullptr;
  const char* tail = nullptr;
  const int code = sqlite3_prepare_v2(db, text.data(), static_cast<int>(text.size()), &raw, &tail);
  if (code != SQLITE_OK) throw Error(ErrorKind::kHost, code, sqlite3_errmsg(db));
  if (rest != nullptr) *rest = text.substr(static_cast<std::size_t>(tail - text.data()));
  return Statement(raw);
}

// True when there is a row.
inline bool step(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    throw Error(ErrorKind::kHost, code, sqlite3_errmsg(sqlite3_db_handle(statement)));
  }
  return code == SQLITE_ROW;
}

// Empty when it is NULL.
inline std::string column_text(sqlite3_stmt* statement, int column) {
  if (sqlite3_column_type(statement, column) == SQLITE_NULL) return "";
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  if (text == nullptr) throw std::bad_alloc();
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement, column))};
}

// Says whether the connection's copy of the schema has this table, and in it this column, unless
// that is null.
inline bool is_there(sqlite3* db, const std::string& schema, const std::string& table,
                     const char* column = nullptr) {
  const int code = sqlite3_table_column_metadata(db, schema.c_str(), table.c_str(), column,
                                                 nullptr, nullptr, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK && code != SQLITE_ERROR) {
    throw Error(ErrorKind::kHost, code, sqlite3_errmsg(db));
  }
  return code == SQLITE_OK;
}

inline void bind_text(sqlite3_stmt* statement, int parameter, std::string_view text) {
  const int code = sqlite3_bind_text64(statement, parameter, text.data(), text.size(),
                                       SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) throw Error(ErrorKind::kHost, code, "cannot bind a text");
}

}  // namespace warplite::sql

// A TableShape says what an ordinary table of the application is like, as far as an index over it
// has to know.
// Threads: as the connection. Errors: Error{kHost}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/sqlite_api.h"

namespace warplite::sql {

struct TableShape {
  // "table", "view" or "virtual table"; empty: there is none.
  std::string type;
  std::string name;  // as it was created
  bool without_rowid = false;
  std::vector<std::string> columns;
  std::string key;    // the INTEGER PRIMARY KEY that is the rowid, or empty
  std::string rowid;  // a name of the rowid; empty: columns have taken them all

  bool has(std::string_view column) const;  // ASCII case-insensitive
};

// The virtual table, other than `except`, that keeps its rows in this table, or empty.
std::string owner_of_shadow(sqlite3* db, const std::string& schema, const std::string& table,
                            const std::string& except);

TableShape shape_of(sqlite3* db, const std::string& schema, const std::string& table);

}  // namespace warplite::sql

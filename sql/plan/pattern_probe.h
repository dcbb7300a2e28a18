// Whether LIKE and GLOB are SQLite's own on a connection. SQLite tells of no overload, but where
// like() and glob() are its own it adds to `x LIKE 'a%'` the range of texts that begin so, compared
// under NOCASE unless case matters. So a statement is prepared that nobody runs, and xBestIndex
// sees what SQLite adds. (PRAGMA function_list says it too, and takes 20 times as long.)
// Threads: as the connection.
#pragma once

#include "engine/filter/filter.h"
#include "sql/definition/definition.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

struct SearchMemo;

// A PatternProbe sees what xBestIndex is offered for that statement.
class PatternProbe {
 public:
  // `op`: kLike or kGlob, which is to be evaluated as the engine does it. `memo`: the table's.
  static bool is_own(sqlite3* db, const TableDefinition& table, SearchMemo& memo,
                     engine::Comparison op);
  void look(sqlite3_index_info* info);

 private:
  bool ignores_case_ = false, heeds_case_ = false;
};

}  // namespace warplite::sql

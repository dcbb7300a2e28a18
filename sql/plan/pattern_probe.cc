#include "sql/plan/pattern_probe.h"

#include <string>

#include "sql/host/statement.h"
#include "sql/plan/plan.h"

namespace warplite::sql {

bool PatternProbe::is_own(sqlite3* db, const TableDefinition& table, SearchMemo& memo,
                          engine::Comparison op) {
  const bool like = op == engine::Comparison::kLike;
  const std::string sql = "SELECT 1 FROM " + quoted_name(table.schema) + "." +
                          quoted_name(table.table) + " WHERE rowid " +
                          (like ? "LIKE 'a%'" : "GLOB 'a*'");
  PatternProbe probe;
  memo.probe = &probe;
  sqlite3_stmt* statement = nullptr;
  // A pattern whose statement cannot be prepared, as an authorizer may have it, is not known to be
  // SQLite's own.
  sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr);
  sqlite3_finalize(statement);
  memo.probe = nullptr;
  return like ? probe.ignores_case_ : probe.heeds_case_;
}

void PatternProbe::look(sqlite3_index_info* info) {
  for (int i = 0; i < info->nConstraint; ++i) {
    if (info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_GE) continue;
    const char* collation = sqlite3_vtab_collation(info, i);
    ignores_case_ = sqlite3_stricmp(collation, "NOCASE") == 0;
    heeds_case_ = sqlite3_stricmp(collation, "BINARY") == 0;
  }
}

}  // namespace warplite::sql

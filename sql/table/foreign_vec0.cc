#include "sql/table/foreign_vec0.h"

#include <cstdio>
#include <string>
#include <vector>

#include "core/error.h"
#include "sql/host/statement.h"

namespace warplite::sql {
namespace {

bool has_table(sqlite3* db, const std::string& schema, const std::string& name) {
  const Statement query =
      prepare(db, "SELECT 1 FROM " + quoted_name(schema) +
                      ".sqlite_master WHERE type = 'table' AND name = ?1 COLLATE NOCASE");
  bind_text(query.get(), 1, name);
  return step(query.get());
}

}  // namespace

std::string numbered(const char* name, int number) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%02d", name, number);
  return text;
}

bool is_foreign(sqlite3* db, const std::string& schema, const std::string& table) {
  return !has_table(db, schema, table + "_state") &&
         (has_table(db, schema, table + "_chunks") || has_table(db, schema, table + "_rowids"));
}

void throw_foreign(const TableDefinition& table) {
  const std::string name = "'" + table.table + "'";
  throw Error(ErrorKind::kUnsupported,
              table.table + ": this vec0 table was written by sqlite-vec; SELECT warp_import_vec0(" +
                  name + ", " + name + ") converts it, SELECT warp_import_vec0(" + name +
                  ") makes a copy");
}

void drop_foreign_tables(sqlite3* db, const TableDefinition& table) {
  std::vector<std::string> suffixes = {"_chunks", "_rowids", "_info"};
  int vectors = 0, metadata = 0;
  bool aux = false;
  for (const ColumnDefinition& column : table.columns) {
    if (column.kind == ColumnKind::kVector) {
      suffixes.push_back(numbered("_vector_chunks", vectors++));
    } else if (column.kind == ColumnKind::kPlain) {
      suffixes.push_back(numbered("_metadatachunks", metadata));
      if (column.plain == PlainType::kText) suffixes.push_back(numbered("_metadatatext", metadata));
      ++metadata;
    } else if (column.kind == ColumnKind::kAux) {
      aux = true;
    }
  }
  if (aux) suffixes.emplace_back("_auxiliary");
  for (const std::string& suffix : suffixes) {
    const std::string name = table.table + suffix;
    if (!has_table(db, table.schema, name)) continue;
    const Statement drop =
        prepare(db, "DROP TABLE " + quoted_name(table.schema) + "." + quoted_name(name));
    step(drop.get());
  }
}

}  // namespace warplite::sql

#include "sql/content/table_shape.h"

#include <algorithm>

#include "sql/definition/argument_lexer.h"
#include "sql/host/statement.h"
#include "storage/storage.h"

namespace warplite::sql {
namespace {

constexpr const char* kRowIdNames[] = {"rowid", "_rowid_", "oid"};

// PRAGMA of the schema with the table's name as its argument.
Statement pragma(sqlite3* db, const std::string& schema, const char* name,
                 const std::string& table) {
  return prepare(db, "PRAGMA " + quoted_name(schema) + "." + name + "(" + quoted_name(table) + ")");
}

// PRAGMA table_list would say the same, but connects every virtual table of the schema.
void read_kind(sqlite3* db, const std::string& schema, const std::string& table,
               TableShape& shape) {
  const Statement query =
      prepare(db, "SELECT type, name, sql LIKE 'CREATE VIRTUAL%' FROM " + quoted_name(schema) +
                      ".sqlite_master WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')");
  bind_text(query.get(), 1, table);
  if (!step(query.get())) return;
  shape.type = column_text(query.get(), 0);
  shape.name = column_text(query.get(), 1);
  if (sqlite3_column_int(query.get(), 2) != 0) shape.type = "virtual table";
}

// A PRIMARY KEY with an index of its own is not the rowid.
bool has_key_index(sqlite3* db, const std::string& schema, const std::string& table) {
  const Statement list = pragma(db, schema, "index_list", table);
  while (step(list.get())) {
    if (column_text(list.get(), 3) == "pk") return true;
  }
  return false;
}

void read_columns(sqlite3* db, const std::string& schema, const std::string& table,
                  TableShape& shape) {
  const Statement info = pragma(db, schema, "table_xinfo", table);
  int keys = 0;
  while (step(info.get())) {
    shape.columns.push_back(column_text(info.get(), 1));
    if (sqlite3_column_int(info.get(), 5) == 0) continue;
    ++keys;
    if (ascii_lower(column_text(info.get(), 2)) == "integer") shape.key = shape.columns.back();
  }
  if (keys != 1 || has_key_index(db, schema, table)) shape.key.clear();
}

bool is_known_shadow(sqlite3* db, const std::string& schema, const std::string& table) {
  const Statement list = pragma(db, schema, "table_list", table);
  while (step(list.get())) {
    if (column_text(list.get(), 2) == "shadow") return true;
  }
  return false;
}

}  // namespace

bool TableShape::has(std::string_view column) const {
  const std::string lower = ascii_lower(column);
  return std::any_of(columns.begin(), columns.end(),
                     [&](const std::string& known) { return ascii_lower(known) == lower; });
}

// SQLite marks the shadow tables of the modules that it knows when it reads a schema, which may
// have been before this extension was loaded; table_list connects every virtual table.
std::string owner_of_shadow(sqlite3* db, const std::string& schema, const std::string& table,
                            const std::string& except) {
  const Statement query =
      prepare(db, "SELECT owner.name, substr(?1, length(owner.name) + 2), "
                      "owner.sql LIKE '%USING%warp%' OR owner.sql LIKE '%USING%vec0%', "
                      "shadow.sql FROM " + quoted_name(schema) +
                      ".sqlite_master AS owner, " + quoted_name(schema) +
                      ".sqlite_master AS shadow WHERE owner.type = 'table' AND owner.rootpage = 0 "
                      "AND owner.name <> ?2 AND shadow.name = ?1 AND shadow.type = 'table' "
                      "AND substr(?1, 1, length(owner.name) + 1) = owner.name || '_' "
                      "COLLATE NOCASE");
  bind_text(query.get(), 1, table);
  bind_text(query.get(), 2, except);
  while (step(query.get())) {
    const bool is_own = sqlite3_column_int(query.get(), 2) != 0;
    if (is_own ? storage::is_shadow_table(ascii_lower(column_text(query.get(), 1)),
                                          column_text(query.get(), 3))
               : is_known_shadow(db, schema, table)) {
      return column_text(query.get(), 0);
    }
  }
  return "";
}

TableShape shape_of(sqlite3* db, const std::string& schema, const std::string& table) {
  TableShape shape;
  read_kind(db, schema, table, shape);
  if (shape.type != "table") return shape;
  read_columns(db, schema, table, shape);
  std::string free;
  for (const char* name : kRowIdNames) {
    if (free.empty() && !shape.has(name)) free = name;
  }
  shape.without_rowid = !free.empty() && !is_there(db, schema, table, free.c_str());
  shape.rowid = shape.key.empty() ? free : shape.key;
  return shape;
}

}  // namespace warplite::sql

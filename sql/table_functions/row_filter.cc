#include "sql/table_functions/row_filter.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/listing.h"
#include "sql/host/statement.h"
#include "sql/table_functions/query_batch.h"

namespace warplite::sql {
namespace {

// A name of the table's rowids that no column has for something else.
std::string rowid_name(const Call& call, const TableDefinition& table) {
  constexpr const char* kNames[] = {"rowid", "_rowid_", "oid"};
  const auto name = std::find_if(std::begin(kNames), std::end(kNames), [&](const char* known) {
    const ColumnDefinition* const column = table.find(known);
    return column == nullptr || column->kind == ColumnKind::kRowId;
  });
  if (name != std::end(kNames)) return *name;
  throw Error(ErrorKind::kInvalid, std::string(call.function()) + ": the option filter needs one " +
                                       "of the names rowid, _rowid_ and oid, which are columns " +
                                       "of " + table.table);
}

[[noreturn]] void refuse(const Call& call, const std::string& expression, const std::string& why) {
  throw Error(ErrorKind::kInvalid, std::string(call.function()) +
                                       ": options: expected one SQL expression without " +
                                       "parameters for the key filter, got " + "'" + expression +
                                       "'" + " (" + why + ")");
}

Statement prepare_rows(const Call& call, const std::string& sql, const std::string& expression) {
  std::string_view rest;
  Statement statement;
  try {
    statement = prepare(call.context().db(), sql, &rest);
  } catch (const Error& error) {
    if (error.host_code() != SQLITE_ERROR) throw;
    refuse(call, expression, error.what());
  }
  if (!rest.empty()) refuse(call, expression, "it ends before its text does");
  if (sqlite3_bind_parameter_count(statement.get()) != 0) {
    refuse(call, expression, "it has parameters");
  }
  return statement;
}

// What can stand in parentheses and also between WHEN and THEN is one expression: a text that
// closes the one, to open it again, does not fit the other.
Statement prepare_filter(const Call& call, const TableDefinition& table,
                         const std::string& expression) {
  const std::string rows = "SELECT " + rowid_name(call, table) + " FROM " +
                           quoted_name(table.schema) + "." + quoted_name(table.table) + " WHERE ";
  prepare_rows(call, rows + "CASE WHEN " + expression + "\nTHEN 1 END", expression);
  return prepare_rows(call, rows + "(" + expression + "\n)", expression);
}

}  // namespace

engine::Filter row_filter(const Call& call, const OpenTable& table, const std::string& expression) {
  if (expression.empty()) return {};
  const NestedQuery nested(call, "options: filter");
  const Statement statement = prepare_filter(call, table.definition, expression);
  engine::Predicate rows;
  rows.op = engine::Comparison::kIn;
  while (step(statement.get())) rows.rowids.push_back(sqlite3_column_int64(statement.get(), 0));
  return {std::move(rows)};
}

std::shared_ptr<const engine::Selection> selected_rows(const Call& call, const OpenTable& table,
                                                       const engine::View& view,
                                                       const std::string& expression) {
  const engine::Filter filter = row_filter(call, table, expression);
  if (filter.empty()) return engine::all_rows(view);
  return std::make_shared<const engine::Selection>(view, filter);
}

}  // namespace warplite::sql

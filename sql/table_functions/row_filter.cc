#include "sql/table_functions/row_filter.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "core/listing.h"
#include "sql/host/statement.h"
#include "sql/table/match_rows.h"
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

// Up to the condition.
std::string select_rows(const Call& call, const TableDefinition& table) {
  return "SELECT " + rowid_name(call, table) + " FROM " + quoted_name(table.schema) + "." +
         quoted_name(table.table) + " WHERE ";
}

// What can stand in parentheses and also between WHEN and THEN is one expression: a text that
// closes the one, to open it again, does not fit the other.
Statement prepare_filter(const Call& call, const std::string& select, const std::string& sql,
                         const std::string& expression) {
  prepare_rows(call, select + "CASE WHEN " + expression + "\nTHEN 1 END", expression);
  return prepare_rows(call, sql, expression);
}

// Says whether SQLite shows every row of one scan of a virtual table, and tests none itself: in its
// program nothing lies between the scan, the row that is shown, and the next one.
bool shows_every_row(const Call& call, const std::string& sql) {
  const Statement program = prepare(call.context().db(), "EXPLAIN " + sql);
  std::string codes = " ";
  while (step(program.get())) {
    const auto* const code = reinterpret_cast<const char*>(sqlite3_column_text(program.get(), 1));
    codes.append(code == nullptr ? "?" : code).append(" ");
  }
  const std::string scan = " VFilter ";
  return codes.find(scan) == codes.rfind(scan) &&
         codes.find(scan + "Rowid ResultRow VNext ") != codes.npos;
}

// While it lives, each scan that begins says there which rows it shows.
class ScanListener {
 public:
  explicit ScanListener(Context& context)
      : context_(context), before_(std::exchange(context.scanned, &rows)) {}
  ~ScanListener() { context_.scanned = before_; }
  ScanListener(const ScanListener&) = delete;
  ScanListener& operator=(const ScanListener&) = delete;

  std::optional<engine::Filter> rows;

 private:
  Context& context_;
  std::optional<engine::Filter>* const before_;
};

}  // namespace

// A scan that shows SQLite the rows that pass, and no others, says by itself which they are: to step through
// a million of them takes a tenth of a second.
engine::Filter row_filter(const Call& call, const OpenTable& table, const std::string& expression) {
  if (expression.empty()) return {};
  const NestedQuery nested(call, "options: filter");
  const std::string select = select_rows(call, table.definition);
  const std::string sql = select + "(" + expression + "\n)";
  const Statement statement = prepare_filter(call, select, sql, expression);
  engine::Predicate rows;
  rows.op = engine::Comparison::kIn;
  // Rows of a content table may be there no more.
  const bool every_row = table.content == nullptr && shows_every_row(call, sql);
  ScanListener listener(call.context());
  while (step(statement.get())) {
    // Of a row that is shown, the scan is what began last: functions of the caller's may scan before it.
    if (every_row && listener.rows) return std::move(*listener.rows);
    rows.rowids.push_back(sqlite3_column_int64(statement.get(), 0));
  }
  return {std::move(rows)};
}

std::shared_ptr<const engine::Selection> selected_rows(const Call& call, const OpenTable& table,
                                                       const engine::View& view,
                                                       const std::string& expression) {
  const engine::Filter filter = row_filter(call, table, expression);
  if (filter.empty()) return engine::all_rows(view);
  return view.derived().of<LastSelections>().get(view, filter);
}

}  // namespace warplite::sql

#include "sql/vec0/import_vec0.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "sql/definition/argument_lexer.h"
#include "sql/definition/values.h"
#include "sql/host/entry.h"
#include "sql/host/guard.h"
#include "sql/host/older_hosts.h"
#include "sql/host/progress.h"
#include "sql/host/statement.h"
#include "sql/table/foreign_vec0.h"
#include "sql/vec0/reader.h"

namespace warplite::sql {
namespace {

constexpr const char* kFunction = "warp_import_vec0";
constexpr std::uint64_t kRowsPerReport = 1024;

std::string dotted(const QualifiedName& name) {
  return quoted_name(name.schema) + "." + quoted_name(name.table);
}

std::string table_argument(sqlite3_value* value) {
  const Cell cell = cell_of(value);
  if (cell.kind == CellKind::kText) return std::string(cell.bytes);
  throw Error(ErrorKind::kInvalid, "expected a table's name, got " + describe(cell));
}

void check_schema(sqlite3* db, const QualifiedName& name) {
  if (has_schema(db, name.schema)) return;
  throw Error(ErrorKind::kInvalid, "there is no schema " + name.schema +
                                       "; a table's name that holds a dot is written in double "
                                       "quotes, as '\"my.table\"'");
}

// Returns what stands behind USING vec0 in the table's CREATE statement. SQLite keeps that as
// "CREATE VIRTUAL TABLE name USING vec0(…)", without IF NOT EXISTS and schema.
std::string read_columns(sqlite3* db, const QualifiedName& name) {
  const Statement schema = prepare(
      db, "SELECT type, sql FROM " + quoted_name(name.schema) +
              ".sqlite_master WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE");
  bind_text(schema.get(), 1, name.table);
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::kInvalid, "expected a vec0 table, got " + dotted(name) + ", " + what);
  };
  if (!step(schema.get())) refuse("which there is not");
  const std::string_view sql = column_cell(schema.get(), 1).bytes;
  const std::vector<Token> tokens = tokenize(sql);
  constexpr std::size_t kUsing = 4, kModule = 5;
  if (tokens.size() <= kModule || !tokens[1].is_word("virtual") ||
      !tokens[kUsing].is_word("using")) {
    refuse("a " + std::string(column_cell(schema.get(), 0).bytes));
  }
  if (ascii_lower(tokens[kModule].text) != "vec0") {
    refuse("a virtual table of the module " + tokens[kModule].text);
  }
  return std::string(sql.substr(tokens[kModule].end));
}

// One statement, to its end; anything behind it is refused.
void run(sqlite3* db, const std::string& sql) {
  std::string_view rest;
  const Statement statement = prepare(db, sql, &rest);
  if (!rest.empty())
    throw Error(ErrorKind::kInvalid, "expected one statement, got \"" + sql + "\"");
  while (step(statement.get())) {
  }
}

// Unless it is kept, a Savepoint undoes what has been done since it was made, after
// sqlite3_interrupt() too: then no statement runs before the outermost one has ended, and ROLLBACK
// TO does not either. But a write that is interrupted makes SQLite roll back the whole transaction;
// one is held ready for that.
// Threads: as the connection.
class Savepoint {
 public:
  explicit Savepoint(sqlite3* db) : db_(db), rowid_(sqlite3_last_insert_rowid(db)) {
    prepare_write();
    run(db_, "SAVEPOINT warp_import_vec0");
  }
  ~Savepoint() {
    if (!kept_ && undo() == SQLITE_INTERRUPT) {
      sqlite3_step(write_.get());
      undo();
    }
    sqlite3_set_last_insert_rowid(db_, rowid_);
  }
  Savepoint(const Savepoint&) = delete;
  Savepoint& operator=(const Savepoint&) = delete;

  // Call this when a table has been made. SQLite tells a table of a ROLLBACK TO only when it has
  // told it of a savepoint before, and this one is older; the inner one ends with it.
  void made_table() {
    prepare_write();  // a table in temp has expired the first one
    run(db_, "SAVEPOINT warp_import_vec0_rows");
  }
  void keep() {
    run(db_, "RELEASE warp_import_vec0");
    kept_ = true;
  }

 private:
  void prepare_write() { write_ = prepare(db_, "CREATE TABLE main.warp_import_vec0_undone(a)"); }
  int undo() {
    return sqlite3_exec(db_, "ROLLBACK TO warp_import_vec0; RELEASE warp_import_vec0", nullptr,
                        nullptr, nullptr);
  }

  sqlite3* db_;
  sqlite3_int64 rowid_;
  Statement write_;
  bool kept_ = false;
};

// While this lives, ALTER TABLE … RENAME does not look at the views and triggers of the schema: those
// that name the table are without it between DROP and RENAME, which would be an error.
class PlainRename {
 public:
  explicit PlainRename(sqlite3* db) : db_(db) {
    set(-1, &before_);
    set(1, nullptr);
  }
  ~PlainRename() { set(before_, nullptr); }
  PlainRename(const PlainRename&) = delete;
  PlainRename& operator=(const PlainRename&) = delete;

 private:
  void set(int value, int* now) {
    sqlite3_db_config(db_, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, value, now);
  }

  sqlite3* db_;
  int before_ = 0;
};

// INSERT INTO target(…) VALUES (…), with the rowid first unless a column names it.
Statement prepare_insert(sqlite3* db, const QualifiedName& target, const TableDefinition& columns) {
  std::string names = columns.rowid_column < 0 ? "rowid" : "";
  std::string marks = columns.rowid_column < 0 ? "?" : "";
  for (const ColumnDefinition& column : columns.columns) {
    names += (names.empty() ? "" : ", ") + quoted_name(column.name);
    marks += marks.empty() ? "?" : ", ?";
  }
  return prepare(db, "INSERT INTO " + dotted(target) + "(" + names + ") VALUES (" + marks + ")");
}

// The cell stays where it is until the statement has run.
void bind(sqlite3_stmt* statement, int parameter, const Cell& cell) {
  const char* bytes = cell.bytes.data() != nullptr ? cell.bytes.data() : "";
  int code = SQLITE_OK;
  switch (cell.kind) {
    case CellKind::kNull:
      code = sqlite3_bind_null(statement, parameter);
      break;
    case CellKind::kInteger:
      code = sqlite3_bind_int64(statement, parameter, cell.integer);
      break;
    case CellKind::kReal:
      code = sqlite3_bind_double(statement, parameter, cell.real);
      break;
    case CellKind::kText:
      code = sqlite3_bind_text64(statement, parameter, bytes, cell.bytes.size(), SQLITE_STATIC,
                                 SQLITE_UTF8);
      break;
    case CellKind::kBlob:
      code = sqlite3_bind_blob64(statement, parameter, bytes, cell.bytes.size(), SQLITE_STATIC);
      break;
  }
  if (code != SQLITE_OK) throw Error(ErrorKind::kHost, code, sqlite3_errstr(code));
}

std::uint64_t copy_rows(sqlite3* db, const QualifiedName& source, const QualifiedName& target,
                        const TableDefinition& columns) {
  Vec0Reader reader(db, source.schema, source.table, columns);
  const index::Progress progress = progress_reporter(target.table);
  const std::uint64_t all = progress ? reader.row_count() : 0;
  const Statement insert = prepare_insert(db, target, columns);
  const int rowid_first = columns.rowid_column < 0 ? 1 : 0;
  std::uint64_t rows = 0;
  for (; reader.next(); ++rows) {
    if (rowid_first != 0) bind(insert.get(), 1, Cell::of(reader.rowid()));
    for (std::size_t i = 0; i < columns.columns.size(); ++i) {
      bind(insert.get(), rowid_first + static_cast<int>(i) + 1, reader.cell(i));
    }
    try {
      step(insert.get());
    } catch (const Error& error) {
      throw Error(error.kind(), error.host_code(),
                  dotted(source) + ", row " + std::to_string(reader.rowid()) + ": " + error.what());
    }
    sqlite3_reset(insert.get());
    if (progress && rows % kRowsPerReport == 0) {
      progress("rows of " + source.table, static_cast<double>(rows) / static_cast<double>(all));
    }
  }
  reader.check_complete();
  return rows;
}

// The module vec0 refuses a table that sqlite-vec wrote unless it is sqlite-vec's own, which may have
// been loaded at any time.
bool refuses(sqlite3* db, const QualifiedName& table) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(db, ("SELECT 1 FROM " + dotted(table)).c_str(), -1, &raw, nullptr);
  const Statement statement(raw);
  return code != SQLITE_OK;
}

std::uint64_t import_vec0(Context& tables, const std::string& from,
                          const std::optional<std::string>& to) {
  sqlite3* db = tables.db();
  QualifiedName source = parse_name(from);
  if (!source.schema.empty()) check_schema(db, source);
  const std::optional<std::string> schema = locate(db, source);
  if (!schema) {
    throw Error(ErrorKind::kInvalid, "expected a vec0 table, got " + from + ", which there is not");
  }
  source.schema = *schema;
  QualifiedName target = to ? parse_name(*to) : QualifiedName{{}, source.table + "_warp"};
  if (target.schema.empty()) target.schema = source.schema;
  check_schema(db, target);
  const std::string columns = read_columns(db, source);
  if (!is_foreign(db, source.schema, source.table)) {
    throw Error(ErrorKind::kInvalid, "expected a vec0 table that sqlite-vec wrote, got " +
                                         dotted(source) + ", which has none of its shadow tables");
  }
  const bool in_place = ascii_lower(dotted(target)) == ascii_lower(dotted(source));
  const QualifiedName made{target.schema, target.table + (in_place ? "_warp_import" : "")};

  Savepoint savepoint(db);
  run(db, "CREATE VIRTUAL TABLE " + dotted(made) +
              (in_place && refuses(db, source) ? " USING vec0" : " USING warp") + columns);
  savepoint.made_table();
  const std::uint64_t rows = copy_rows(db, source, made, tables.find(dotted(made))->definition);
  if (in_place) {
    run(db, "DROP TABLE " + dotted(source));
    const PlainRename plain(db);
    run(db, "ALTER TABLE " + dotted(made) + " RENAME TO " + quoted_name(target.table));
  }
  savepoint.keep();
  return rows;
}

void call(sqlite3_context* context, int count, sqlite3_value** arguments) {
  guarded(context, [&] {
    try {
      std::optional<std::string> target;
      if (count > 1) target = table_argument(arguments[1]);
      auto& tables = *static_cast<Context*>(sqlite3_user_data(context));
      sqlite3_result_int64(context, static_cast<sqlite3_int64>(
                                        import_vec0(tables, table_argument(arguments[0]), target)));
    } catch (const Error& error) {
      throw Error(error.kind(), error.host_code(), std::string(kFunction) + ": " + error.what());
    }
  });
}

}  // namespace

int register_import_vec0(sqlite3* db, Context* context) {
  int code = SQLITE_OK;
  for (int arguments = 1; arguments <= 2 && code == SQLITE_OK; ++arguments) {
    code = create_function<call>(db, kFunction, arguments, SQLITE_DIRECTONLY, context);
  }
  return code;
}

}  // namespace warplite::sql

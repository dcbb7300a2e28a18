#include "storage/statements.h"

#include <array>
#include <cstring>

#include "core/error.h"
#include "core/listing.h"

namespace warplite::storage {
namespace {

// Indexed by Sql. {tail}, {aux} … are the tables' names, {schema} the schema's own table, {database} its name;
// {tail_columns} is ", v0 …, c0 …" or ", hash", {tail_values} and {aux_values} as many question
// marks; {column} a number.
constexpr const char* kSql[] = {
    /* kReadState    */ "SELECT record FROM {state} WHERE id = 1",
    /* kWriteState   */ "REPLACE INTO {state}(id, record) VALUES(1, ?)",
    /* kReadSegments */ "SELECT id, info FROM {segments} ORDER BY id",
    /* kWriteSegment */ "REPLACE INTO {segments}(id, info) VALUES(?, ?)",
    /* kEraseSegment */ "DELETE FROM {segments} WHERE id = ?",
    /* kWriteBlock   */ "REPLACE INTO {blocks}(id, data) VALUES(?, ?)",
    /* kEraseBlocks  */ "DELETE FROM {blocks} WHERE id BETWEEN ? AND ?",
    /* kReadTail     */
    "SELECT id, flush, row, sum{tail_columns} FROM {tail} WHERE id > ? ORDER BY id",
    /* kTailFlush    */ "SELECT flush FROM {tail} WHERE id = ?",
    /* kTailSum      */ "SELECT sum FROM {tail} WHERE id = ?",
    /* kNewestFlush  */ "SELECT flush FROM {tail} ORDER BY id DESC LIMIT 1",
    /* kAppendTail   */
    "INSERT INTO {tail}(id, flush, row, sum{tail_columns}) VALUES(?, ?, ?, ?{tail_values})",
    /* kEraseTail    */ "DELETE FROM {tail} WHERE id = ?",
    /* kClearTail    */ "DELETE FROM {tail}",
    /* kWriteAux     */ "REPLACE INTO {aux}(id{aux_columns}) VALUES(?{aux_values})",
    /* kEraseAux     */ "DELETE FROM {aux} WHERE id = ?",
    /* kFindKey      */ "SELECT id FROM {keys} WHERE key = ?",
    /* kWriteKey     */ "INSERT INTO {keys}(id, key) VALUES(?, ?)",
    /* kEraseKey     */ "DELETE FROM {keys} WHERE id = ?",
    /* kCountTail    */ "SELECT count(*) FROM {tail} WHERE id > ?",
    /* kBlockIds     */ "SELECT id FROM {blocks} ORDER BY id",
    /* kAuxIds       */ "SELECT id FROM {aux} ORDER BY id",
    /* kKeys         */ "SELECT id, key FROM {keys} ORDER BY id",
    /* kSchema       */
    "SELECT sql FROM {schema} WHERE type = 'table' AND name = ? COLLATE NOCASE",
    /* kRootPage     */
    "SELECT rootpage FROM {schema} WHERE type = 'table' AND name = ? COLLATE NOCASE",
    /* kPageCount    */ "PRAGMA {database}.page_count",
    /* kPageSize     */ "PRAGMA {database}.page_size",
    /* kReadAux      */ "SELECT a{column} FROM {aux} WHERE id = ?",
};
static_assert(std::size(kSql) == static_cast<std::size_t>(Sql::kReadAux) + 1);

std::string column_list(char prefix, std::size_t count) {
  std::string list;
  for (std::size_t i = 0; i < count; ++i) {
    list.append(", ").append(1, prefix).append(std::to_string(i));
  }
  return list;
}

std::string value_list(std::size_t count) {
  std::string list;
  for (std::size_t i = 0; i < count; ++i) list.append(", ?");
  return list;
}

}  // namespace

void throw_host(sqlite3* db, const std::string& table, int returned) {
  constexpr int kPrimary = 0xff;
  int code = sqlite3_extended_errcode(db);
  if (returned != SQLITE_OK && (returned & kPrimary) != (code & kPrimary)) {
    throw Error(ErrorKind::kHost, returned, table + ": " + sqlite3_errstr(returned));
  }
  if (code == SQLITE_INTERRUPT) throw Error(ErrorKind::kInterrupted, "interrupted");
  if (code == SQLITE_OK) code = SQLITE_ERROR;
  throw Error(ErrorKind::kHost, code, table + ": " + sqlite3_errmsg(db));
}

Execution& Execution::bind(std::int64_t value) {
  check(sqlite3_bind_int64(statement_, ++bound_, value));
  return *this;
}

Execution& Execution::bind_blob(std::span<const std::byte> bytes) {
  // A null pointer would bind NULL, which is not an empty blob.
  const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
  check(sqlite3_bind_blob64(statement_, ++bound_, data, bytes.size(), SQLITE_STATIC));
  return *this;
}

Execution& Execution::bind_zeros(std::size_t bytes) {
  check(sqlite3_bind_zeroblob64(statement_, ++bound_, bytes));
  return *this;
}

Execution& Execution::bind_stamp(const Stamp& stamp) {
  check(sqlite3_bind_blob(statement_, ++bound_, &stamp, sizeof stamp, SQLITE_TRANSIENT));
  return *this;
}

Execution& Execution::bind_cell(const Cell& cell) {
  const std::string_view bytes = cell.bytes.data() == nullptr ? std::string_view("") : cell.bytes;
  switch (cell.kind) {
    case CellKind::kNull: check(sqlite3_bind_null(statement_, ++bound_)); break;
    case CellKind::kInteger: return bind(cell.integer);
    case CellKind::kReal: check(sqlite3_bind_double(statement_, ++bound_, cell.real)); break;
    case CellKind::kText:
      check(sqlite3_bind_text64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_STATIC,
                                SQLITE_UTF8));
      break;
    case CellKind::kBlob: return bind_blob(std::as_bytes(std::span(bytes)));
  }
  return *this;
}

void Execution::run() {
  while (step()) {
  }
  check(sqlite3_reset(statement_));
  bound_ = 0;
  sqlite3_clear_bindings(statement_);
}

std::span<const std::byte> Execution::blob(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_BLOB) return {};
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (data == nullptr && size > 0) throw_host(db_, *table_);
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
}

Cell Execution::cell(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER: return Cell::of(integer(column));
    case SQLITE_FLOAT: return Cell::of(sqlite3_column_double(statement_, column));
    case SQLITE_TEXT: {
      const auto* data =
          reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
      if (data == nullptr) throw_host(db_, *table_);
      return Cell::text({data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))});
    }
    case SQLITE_BLOB: {
      const auto bytes = blob(column);
      return Cell::blob({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
    default: return Cell::null();
  }
}

std::optional<Stamp> Execution::stamp(int column) const {
  const auto bytes = blob(column);
  Stamp stamp;
  if (bytes.size() != sizeof stamp) return std::nullopt;
  std::memcpy(&stamp, bytes.data(), sizeof stamp);
  return stamp;
}

Statements::Statements(sqlite3* db, const std::string& schema, const std::string& table,
                       const Layout& layout)
    : db_(db), schema_(schema), table_(table), layout_(layout),
      cached_(static_cast<std::size_t>(Sql::kReadAux) + layout.aux) {}

Statements::~Statements() {
  for (Kept& kept : cached_) end(kept);
}

void Statements::finalize() noexcept {
  for (Kept& kept : cached_) {
    const bool busy = kept.statement != nullptr && sqlite3_stmt_busy(kept.statement);
    if (busy) {
      kept.stale = true;
    } else {
      end(kept);
    }
  }
}

std::string Statements::expand(std::string_view pattern, std::size_t column) const {
  const auto replacement = [&](std::string_view name) -> std::string {
    if (name == "schema") return quoted_name(schema_) + ".sqlite_master";
    if (name == "database") return quoted_name(schema_);
    if (name == "column") return std::to_string(column);
    if (name == "tail_columns") {
      if (layout_.content) return ", hash";
      return column_list('v', layout_.vectors.size()) + column_list('c', layout_.plains.size());
    }
    if (name == "tail_values") {
      return value_list(layout_.content ? 1 : layout_.vectors.size() + layout_.plains.size());
    }
    if (name == "aux_columns") return column_list('a', layout_.aux);
    if (name == "aux_values") return value_list(layout_.aux);
    return quoted_name(schema_) + "." + quoted_name(table_ + "_" + std::string(name));
  };
  std::string sql;
  while (!pattern.empty()) {
    const std::size_t open = pattern.find('{');
    sql.append(pattern.substr(0, open));
    if (open == std::string_view::npos) break;
    const std::size_t close = pattern.find('}', open);
    sql.append(replacement(pattern.substr(open + 1, close - open - 1)));
    pattern.remove_prefix(close + 1);
  }
  return sql;
}

sqlite3_stmt* Statements::prepare(Sql sql, std::size_t column) const {
  const std::string text = expand(kSql[static_cast<std::size_t>(sql)], column);
  sqlite3_stmt* statement = nullptr;
  // NO_VTAB: a shadow table replaced by a virtual one must not run foreign code.
  const int code =
      sqlite3_prepare_v3(db_, text.c_str(), static_cast<int>(text.size() + 1),
                         SQLITE_PREPARE_PERSISTENT | SQLITE_PREPARE_NO_VTAB, &statement, nullptr);
  if (code != SQLITE_OK) throw_host(db_, table_);
  return statement;
}

void Statements::execute(std::string_view pattern) {
  if (sqlite3_exec(db_, expand(pattern).c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw_host(db_, table_);
  }
}

}  // namespace warplite::storage

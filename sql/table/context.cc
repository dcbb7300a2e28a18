#include "sql/table/context.h"

#include <algorithm>
#include <chrono>
#include <ranges>
#include <vector>

#include "core/error.h"
#include "sql/definition/argument_lexer.h"
#include "sql/host/older_hosts.h"
#include "sql/host/statement.h"

namespace warplite::sql {
namespace {

[[noreturn]] void malformed(const std::string& name) {
  throw Error(ErrorKind::kInvalid,
              "expected a table's name, as table or schema.table, got '" + name + "'");
}

// One part of a dotted name from `at` on, without its quotes.
std::string name_part(const std::string& name, std::size_t& at) {
  std::string part;
  const char open = at < name.size() ? name[at] : '\0';
  if (open != '"' && open != '[' && open != '`') {
    while (at < name.size() && name[at] != '.') part += name[at++];
    return part;
  }
  const char close = open == '[' ? ']' : open;
  for (++at; at < name.size(); ++at) {
    if (name[at] != close) {
      part += name[at];
    } else if (close != ']' && at + 1 < name.size() && name[at + 1] == close) {
      part += name[++at];
    } else {
      ++at;
      return part;
    }
  }
  malformed(name);
}

}  // namespace

QualifiedName parse_name(const std::string& name) {
  QualifiedName result;
  std::size_t at = 0;
  result.table = name_part(name, at);
  if (at < name.size() && name[at] == '.') {
    ++at;
    result.schema = std::move(result.table);
    result.table = name_part(name, at);
    if (result.schema.empty()) malformed(name);
  }
  if (at != name.size() || result.table.empty()) malformed(name);
  return result;
}

namespace {

// temp, main, then the attached ones: SQLite's order of resolution.
std::vector<std::string> search_path(sqlite3* db) {
  std::vector<std::string> schemas{"temp", "main"};
  const Statement list = prepare(db, "PRAGMA database_list");
  while (step(list.get())) {
    const std::string name = column_text(list.get(), 1);
    if (name != "temp" && name != "main") schemas.push_back(name);
  }
  return schemas;
}

constexpr const char* kVirtualTable = "a virtual table of another kind";

// "a table", "a view", kVirtualTable, or nothing; reads the file.
std::optional<std::string> what_is(sqlite3* db, const std::string& schema,
                                   const std::string& table) {
  if (!has_schema(db, schema)) return std::nullopt;
  const Statement query =
      prepare(db, "SELECT type, sql LIKE 'CREATE VIRTUAL%' FROM " + quoted_name(schema) +
                      ".sqlite_master "
                      "WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')");
  bind_text(query.get(), 1, table);
  if (!step(query.get())) return std::nullopt;
  if (sqlite3_column_int(query.get(), 1) != 0) return kVirtualTable;
  return "a " + column_text(query.get(), 0);
}

}  // namespace

std::optional<std::string> locate(sqlite3* db, const QualifiedName& name) {
  if (!name.schema.empty()) return name.schema;
  for (const char* schema : {"temp", "main"}) {
    if (is_there(db, schema, name.table)) return schema;
  }
  const std::vector<std::string> schemas = search_path(db);
  for (const std::string& schema : schemas) {
    if (is_there(db, schema, name.table)) return schema;
  }
  // Perhaps another connection made it a moment ago.
  for (const std::string& schema : schemas) {
    if (what_is(db, schema, name.table)) return schema;
  }
  return std::nullopt;
}

void SchemaWatch::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

bool SchemaWatch::changed(sqlite3* db, const std::string& schema) {
  if (probe_ == nullptr) {
    const std::string sql = "SELECT 1 FROM " + quoted_name(schema) + ".sqlite_master LIMIT 0";
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(db, sql.c_str(), -1, &raw, nullptr) != SQLITE_OK) return true;
    probe_.reset(raw);
  }
  const bool read = sqlite3_step(probe_.get()) == SQLITE_DONE;
  sqlite3_reset(probe_.get());
  const int count = sqlite3_stmt_status(probe_.get(), SQLITE_STMTSTATUS_REPREPARE, 0);
  seen_ = read ? count : -1;
  return !read || count != prepared_again_;
}

void Context::add(const std::shared_ptr<OpenTable>& table) {
  remove(*table);
  tables_.push_back(
      {ascii_lower(table->definition.schema), ascii_lower(table->definition.table), table});
}

void Context::remove(const OpenTable& table) {
  std::erase_if(tables_, [&](const Known& known) {
    const std::shared_ptr<OpenTable> open = known.open.lock();
    return open == nullptr || open.get() == &table;
  });
}

std::shared_ptr<OpenTable> Context::still_open(const std::vector<std::string>& arguments) {
  const std::string schema = ascii_lower(arguments[1]);
  std::shared_ptr<OpenTable> found;
  for (const Known& known : std::views::reverse(tables_)) {
    std::shared_ptr<OpenTable> table = known.schema == schema ? known.open.lock() : nullptr;
    if (table == nullptr || table->arguments[0] != arguments[0] ||
        !std::ranges::equal(table->arguments | std::views::drop(3),
                            arguments | std::views::drop(3))) {
      continue;
    }
    if (!table->collection->continues(arguments[2])) continue;
    // Another table that was only renamed is not told of a rollback, and goes by its name of
    // before.
    if (table->collection->in_transaction()) return table;
    if (found == nullptr) found = std::move(table);
  }
  return found;
}

std::shared_ptr<OpenTable> Context::lookup(const std::string& schema, const std::string& table) {
  const std::string lower_schema = ascii_lower(schema), lower = ascii_lower(table);
  for (const Known& known : std::views::reverse(tables_)) {
    if (known.schema != lower_schema || known.table != lower) continue;
    std::shared_ptr<OpenTable> newest = known.open.lock();
    const bool renamed = newest != nullptr && ascii_lower(newest->collection->table()) != lower;
    return renamed ? nullptr : newest;
  }
  return nullptr;
}

void Context::write_all(compute::Cancellation* cancellation) {
  std::vector<std::shared_ptr<OpenTable>> tables;  // SQLite may connect others meanwhile
  for (const Known& known : tables_) {
    if (auto table = known.open.lock()) tables.push_back(std::move(table));
  }
  for (const auto& table : tables) table->collection->write(cancellation);
}

void Context::connect(const std::string& schema, const std::string& table) {
  const Statement probe = prepare(
      db_, "SELECT 1 FROM " + quoted_name(schema) + "." + quoted_name(table) + " LIMIT 0");
  step(probe.get());
}

std::shared_ptr<OpenTable> Context::find(const std::string& name) {
  const QualifiedName wanted = parse_name(name);
  const std::optional<std::string> schema = locate(db_, wanted);
  std::optional<std::string> kind;
  if (schema) {
    std::shared_ptr<OpenTable> known = lookup(*schema, wanted.table);
    const bool connected = known != nullptr;
    if (connected && !known->schema_watch.changed(db_, *schema)) return known;
    known.reset();
    if (!connected) kind = what_is(db_, *schema, wanted.table);
    if (connected || kind == kVirtualTable) {
      connect(*schema, wanted.table);
      if (std::shared_ptr<OpenTable> table = lookup(*schema, wanted.table)) {
        table->schema_watch.settle();
        return table;
      }
    }
  }
  throw Error(ErrorKind::kInvalid, kind ? name + " is " + *kind + ", not a warp table"
                                        : "no such warp table: " + name);
}

namespace {

// One row that takes SQLite as many steps as it has columns. SQLite counts its own steps alone
// before it calls a progress handler: so many a millisecond have a handler of 10,000 steps called
// every 20 milliseconds, and cost a thousandth of the time.
std::string row_of_steps() {
  constexpr int kColumns = 500;
  std::string sql = "SELECT 1";
  for (int i = 1; i < kColumns; ++i) sql += ",1";
  return sql;
}

}  // namespace

struct Interrupt::Impl {
  using Clock = std::chrono::steady_clock;
  // Most searches end before they are asked: to prepare the row takes 0.15 ms.
  static constexpr std::chrono::milliseconds kFirstPause{5}, kPause{1};

  sqlite3* db;
  const sqlite3_api_routines* routines = host::routines;  // a helper thread has none of its own
  Clock::time_point next = Clock::now() + kFirstPause;  // when it is asked
  Statement probe{};

  int prepare(const char* sql) {
    sqlite3_stmt* raw = nullptr;
    const int code = sqlite3_prepare_v2(db, sql, -1, &raw, nullptr);
    probe.reset(raw);
    return code;
  }
  bool ask() {
    const host::Scope scope(routines);
    if (probe == nullptr) {
      static const std::string kSteps = row_of_steps();
      int code = prepare(kSteps.c_str());
      if (code == SQLITE_ERROR) code = prepare("SELECT 1");  // fewer columns may be allowed
      if (code != SQLITE_OK) return code == SQLITE_INTERRUPT;
    }
    const bool interrupted = sqlite3_step(probe.get()) == SQLITE_INTERRUPT;
    sqlite3_reset(probe.get());
    return interrupted;
  }
};

Interrupt::Interrupt(sqlite3* db) : impl_(std::make_unique<Impl>()) { impl_->db = db; }
Interrupt::~Interrupt() = default;

bool Interrupt::requested() {
  const Impl::Clock::time_point now = Impl::Clock::now();
  if (now < impl_->next) return false;
  impl_->next = now + Impl::kPause;
  return impl_->ask();
}

std::shared_ptr<engine::SearchReport> Context::new_report(const TableDefinition& table,
                                                          const ColumnDefinition& column) {
  begin_search();
  return add_report(table.table, column.name, column.index_name());
}

std::shared_ptr<engine::SearchReport> Context::add_report(std::string table, std::string column,
                                                          std::string index) {
  auto report = std::make_shared<engine::SearchReport>();
  report->table = std::move(table);
  report->column = std::move(column);
  report->index = std::move(index);
  last_reports_.push_back(report);
  return report;
}

}  // namespace warplite::sql

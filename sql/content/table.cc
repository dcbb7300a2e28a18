// Knows what a content table is, and whether all is there that its index needs; content_reading.cc
// reads it.
#include "sql/content/table.h"

#include <algorithm>
#include <utility>

#include "sql/content/table_shape.h"
#include "sql/content/triggers.h"
#include "sql/content/use.h"
#include "sql/definition/argument_lexer.h"
#include "sql/host/older_hosts.h"

namespace warplite::sql {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

WatchedColumn::Kind kind_of(const ColumnDefinition& column) {
  if (column.is_vector()) return WatchedColumn::Kind::kAny;
  switch (column.plain) {
    case PlainType::kText: return WatchedColumn::Kind::kText;
    case PlainType::kReal: return WatchedColumn::Kind::kReal;
    default: return WatchedColumn::Kind::kAny;
  }
}

// Returns the command that mends most faults.
std::string rebuild_of(const std::string& index) {
  return "INSERT INTO " + index + "(" + index + ") VALUES ('rebuild')";
}

}  // namespace

ContentTable::ContentTable(sqlite3* db, const TableDefinition& definition)
    : db_(db), definition_(definition), table_(definition.content.table) {
  for (const ColumnDefinition& column : definition_.columns) {
    if (column.kind == ColumnKind::kVector) indexed_.push_back(&column);
  }
  vectors_.resize(indexed_.size());
  for (const ColumnDefinition& column : definition_.columns) {
    if (column.kind == ColumnKind::kPlain || column.kind == ColumnKind::kPartition ||
        column.kind == ColumnKind::kSparse) {
      indexed_.push_back(&column);
    }
    if (column.kind == ColumnKind::kAux) aux_.push_back(&column);
  }
  plains_.resize(indexed_.size() - vectors_.size());
  inputs_.resize(indexed_.size());
}

const std::string& ContentTable::index() const {
  return collection_ != nullptr ? collection_->table() : definition_.table;
}

// --- what it is ------------------------------------------------------------

void ContentTable::refuse(const std::string& why) const {
  throw Error(ErrorKind::kInvalid, index() + ": content=" + table_ + ": " + why);
}

void ContentTable::verify() {
  const TableShape shape = shape_of(db_, definition_.schema, table_);
  verify_kind(shape);
  verify_rowid(shape);
  verify_columns(shape);
  table_ = shape.name;
}

void ContentTable::verify_kind(const TableShape& shape) const {
  const std::string& schema = definition_.schema;
  if (shape.type.empty()) {
    refuse("there is no such table in schema " + schema +
           ", where the index is; an index and its content table are in the same schema");
  }
  if (shape.type != "table") {
    refuse("is a " + shape.type + "; expected an ordinary table, whose triggers can tell of changes");
  }
  if (ascii_lower(shape.name).starts_with("sqlite_")) refuse("is a table of SQLite's own");
  if (shape.without_rowid) {
    refuse("is a WITHOUT ROWID table; expected one whose rows have rowids, as with an INTEGER "
           "PRIMARY KEY");
  }
  if (shape.rowid.empty()) refuse("its columns have taken all names of the rowid");
  const std::string owner =
      definition_.content.triggers ? owner_of_shadow(db_, schema, shape.name, index()) : "";
  if (!owner.empty()) {
    refuse("is a shadow table of " + owner + ", whose own statements would fail with triggers on "
           "it; expected a table that is written to directly, or sync=manual and 'rebuild'");
  }
}

void ContentTable::verify_rowid(const TableShape& shape) const {
  const std::string& given = definition_.content.rowid;
  const std::string rowid = ascii_lower(given);
  const bool is_name = rowid == "rowid" || rowid == "_rowid_" || rowid == "oid";
  if (rowid.empty() || rowid == ascii_lower(shape.key) || (is_name && !shape.has(rowid))) return;
  const std::string hides =
      is_name ? " is a column of its own, which hides the rowid" : " is not its rowid";
  const std::string expected =
      !shape.key.empty() ? "its INTEGER PRIMARY KEY, " + shape.key
      : is_name          ? shape.rowid
                         : shape.rowid + ", since it has no INTEGER PRIMARY KEY";
  const std::string what_to_do =
      collection_ == nullptr
          ? ""
          : "; drop the index and create it with content_rowid=" + shape.rowid;
  refuse("content_rowid=" + given + hides + "; expected " + expected + what_to_do);
}

void ContentTable::verify_columns(const TableShape& shape) const {
  for (const ColumnDefinition& column : definition_.columns) {
    if (!shape.has(column.name)) {
      refuse("it has no column " + column.name + "; its columns: " + list_of(shape.columns));
    }
    if (column.kind == ColumnKind::kRowId && ascii_lower(column.name) != ascii_lower(shape.key)) {
      refuse(column.name + " is not its INTEGER PRIMARY KEY" +
             (shape.key.empty() ? ", of which it has none" : ", which is " + shape.key));
    }
  }
}

// --- its triggers ----------------------------------------------------------

// Returns the names of the index, whatever the content table is.
TriggerTarget ContentTable::names() const {
  TriggerTarget target{definition_.schema, "", "", index(), index(), "rowid", {}};
  for (const char* name : {"oid", "_rowid_", "rowid"}) {
    if (definition_.find(name) == nullptr) target.index_rowid = name;
  }
  return target;
}

TriggerTarget ContentTable::target(const TableShape& shape) const {
  TriggerTarget target = names();
  target.content = shape.name;
  target.content_rowid = shape.rowid;
  for (const ColumnDefinition* column : indexed_) {
    target.columns.push_back({column->name, kind_of(*column)});
  }
  return target;
}

FoundTriggers ContentTable::triggers() const { return find_triggers(db_, names()); }

// If a trigger of the index is left, it tells which table is the index's, under whatever name.
std::string ContentTable::table_of(const FoundTriggers& found) const {
  return found.own() != nullptr ? found.own()->table : definition_.content.table;
}

void ContentTable::create_triggers() {
  if (!definition_.content.triggers) return;
  sql::create_triggers(db_, target(shape_of(db_, definition_.schema, table_)));
}

void ContentTable::drop_triggers() {
  forget();
  if (definition_.content.triggers) sql::drop_triggers(db_, definition_.schema, triggers());
}

// A trigger that is left may know the table's key by another name than content_rowid= has.
void ContentTable::restore_triggers() {
  if (!definition_.content.triggers) return;
  forget();
  const FoundTriggers found = triggers();
  table_ = table_of(found);
  const TableShape shape = shape_of(db_, definition_.schema, table_);
  verify_kind(shape);
  if (found.own() == nullptr) verify_rowid(shape);
  verify_columns(shape);
  if (const FoundTrigger* other = found.other()) refuse(*other);
  const TriggerTarget wanted = target(shape);
  if (are_as_created(found, wanted)) return;
  sql::drop_triggers(db_, definition_.schema, found);
  sql::create_triggers(db_, wanted);
}

void ContentTable::refuse(const FoundTrigger& other) const {
  throw Error(ErrorKind::kInvalid, index() + ": the trigger " + other.name + " on " + other.table +
                                       " is not the index's, which needs the name; drop that "
                                       "trigger, then " + rebuild_of(index()));
}

// SQLite has had their bodies go by the index's new name, except with legacy_alter_table.
void ContentTable::rename_triggers(const std::string& new_index) {
  if (!definition_.content.triggers) return;
  TriggerTarget names = this->names();
  FoundTriggers found = find_triggers(db_, names);
  if (found.own() == nullptr) {
    names.body_index = new_index;
    found = find_triggers(db_, names);
  }
  if (found.own() == nullptr) return;
  TriggerTarget renamed = target(shape_of(db_, definition_.schema, table_of(found)));
  renamed.index = renamed.body_index = new_index;
  forget();
  sql::rename_triggers(db_, found, renamed);
}

// --- statements ------------------------------------------------------------

void ContentTable::forget() {
  for (auto& statement : statements_) statement = nullptr;
  checked_ = {};
  settled_ = false;
}

// A content table that was renamed is the one that the triggers are on.
void ContentTable::settle() {
  if (settled_) return;
  std::string table = definition_.content.triggers ? table_of(triggers()) : table_;
  TableShape shape = shape_of(db_, definition_.schema, table);
  table_ = std::move(table);
  if (!shape.rowid.empty()) rowid_ = std::move(shape.rowid);
  has_key_ = !shape.key.empty();
  settled_ = true;
}

std::string ContentTable::text_of(Sql sql, const Columns* aux) const {
  const std::string from = " FROM " + quoted_name(definition_.schema) + "." + quoted_name(table_) +
                           " AS c";
  const std::string rowid = "c." + quoted_name(rowid_);
  // Behind "c." a name is never taken for a text.
  std::string columns;
  for (const ColumnDefinition* column : sql == Sql::kAuxFrom ? *aux : sql == Sql::kAux ? aux_ : indexed_) {
    columns += ", c." + quoted_name(column->name);
  }
  switch (sql) {
    case Sql::kExists: return "SELECT 1" + from + " WHERE " + rowid + " = ?1";
    case Sql::kScan: return "SELECT " + rowid + columns + from + " ORDER BY 1";
    case Sql::kRowIds: return "SELECT " + rowid + from + " ORDER BY 1";
    case Sql::kCountRows: return "SELECT count(*)" + from;
    case Sql::kFrom: return "SELECT " + rowid + from + " WHERE " + rowid + " >= ?1 ORDER BY 1";
    case Sql::kIndexedFrom:
    case Sql::kAuxFrom:
      return "SELECT " + rowid + columns + from + " WHERE " + rowid + " >= ?1 ORDER BY 1";
    default: return "SELECT " + rowid + columns + from + " WHERE " + rowid + " = ?1";
  }
}

std::shared_ptr<sqlite3_stmt> ContentTable::prepare_statement(const std::string& text) const {
  sqlite3_stmt* raw = nullptr;
  // NO_VTAB: a virtual table in place of the content table must not run foreign code.
  const int code = sqlite3_prepare_v3(db_, text.c_str(), static_cast<int>(text.size() + 1),
                                      SQLITE_PREPARE_PERSISTENT | SQLITE_PREPARE_NO_VTAB, &raw,
                                      nullptr);
  if (code != SQLITE_OK) explain(code, sqlite3_errmsg(db_));
  return {raw, FinalizeStatement()};
}

// Throws an error that says what a statement's failure means for the index.
void ContentTable::explain(int code, const std::string& message) const {
  if (code != SQLITE_ERROR) throw Error(ErrorKind::kHost, code, index() + ": " + table_ + ": " + message);
  const TableShape shape = shape_of(db_, definition_.schema, table_);
  std::string what;
  if (shape.type.empty()) {
    what = "the content table " + table_ + " is gone" +
           (definition_.content.triggers ? "; " : " or has another name; ") +
           "bring it back, or drop the index";
  } else if (shape.type != "table") {
    what = "the content table " + table_ + " is a " + shape.type + " now; drop the index";
  }
  for (const ColumnDefinition& column : definition_.columns) {
    if (!what.empty() || column.kind == ColumnKind::kRowId || shape.has(column.name)) continue;
    what = "the content table " + table_ + " has no column " + column.name +
           " any more; rename it back, or add it again and " + rebuild_of(index()) +
           ", or drop the index";
  }
  throw Error(ErrorKind::kInvalid,
              index() + ": " + (what.empty() ? table_ + ": " + message : what));
}

// Says whether all is there that the index needs, looked at anew when the schema may have changed:
// one look-up of a row tells, by whether its statement was prepared again.
void ContentTable::check() {
  Use(*this, Sql::kExists, 0).step();
  if (Checked known = statement_of_exists(); known.statement != nullptr && known == checked_) return;
  settle_anew();
  Use(*this, Sql::kPoint, 0).step();
  Use(*this, Sql::kExists, 0).step();
  if (definition_.content.triggers) check_triggers();
  checked_ = statement_of_exists();
}

void ContentTable::check_triggers() const {
  const FoundTriggers found = triggers();
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInvalid, index() + ": " + what + "; " + rebuild_of(index()) +
                                         " makes them again");
  };
  if (const FoundTrigger* other = found.other()) refuse(*other);
  if (!found.all()) {
    fail("the triggers that tell of changes of " + table_ +
         " are gone, as when it was dropped and made again");
  }
  const std::string other =
      unnamed(found, target(shape_of(db_, definition_.schema, table_of(found))));
  if (!other.empty()) {
    fail("the triggers on " + table_ + " do not know its " + other +
         ", as when a column was renamed and another one has got its name");
  }
}

ContentTable::Checked ContentTable::statement_of_exists() const {
  sqlite3_stmt* const statement = statements_[static_cast<int>(Sql::kExists)].get();
  if (statement == nullptr) return {};
  return {statement, sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_REPREPARE, 0)};
}

// Another table may have got the name that the content table had.
void ContentTable::settle_anew() {
  const std::string table = table_, rowid = rowid_;
  settled_ = false;
  settle();
  if (table == table_ && rowid == rowid_) return;
  forget();
  settle();
}

engine::ContentSource::Moment ContentTable::moment() {
  unsigned commits = 0;
  sqlite3_file_control(db_, definition_.schema.c_str(), SQLITE_FCNTL_DATA_VERSION, &commits);
  return {commits, total_changes(db_), is_settled(db_, definition_.schema)};
}

std::string ContentTable::advice() const {
  return index() + " is an index over " + table_ + ": change the rows of " + table_ +
         (definition_.content.triggers
              ? ", and it follows"
              : ", and tell it by INSERT INTO " + index() + "(rowid) VALUES (…) or 'rebuild'");
}

}  // namespace warplite::sql

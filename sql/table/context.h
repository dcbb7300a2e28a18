// A Context holds what the modules and functions of one connection share: its warp tables by name.
// Ownership: created by registration, freed with the module (sql/host/entry.h).
// Threads: as the connection.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compute/ops.h"
#include "engine/collection.h"
#include "engine/filter/filter.h"
#include "engine/search/search_report.h"
#include "sql/definition/definition.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

class ContentTable;

// Tells whether SQLite has read a schema anew, or was made to by a change of it, since it was last
// asked. That takes a statement that is kept, of which SQLite counts how often it had to prepare it
// again; it names no virtual table, which it would keep connected. Freed with the table: SQLite closes
// no connection that has statements.
class SchemaWatch {
 public:
  // True until settle(), and where the schema cannot be read.
  bool changed(sqlite3* db, const std::string& schema);
  // What changed() saw is known from now on. Not called where the host's authorizer refused the table: then
  // it is asked again.
  void settle() { prepared_again_ = seen_; }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> probe_;
  int prepared_again_ = -1, seen_ = -1;
};

// A connected warp table; the virtual table owns it, cursors of table-valued functions share it.
struct OpenTable {
  std::vector<std::string> arguments;  // as SQLite hands them over: module, schema, table, columns
  TableDefinition definition;
  std::shared_ptr<ContentTable> content;  // null without content=; the collection reads it
  std::shared_ptr<engine::Collection> collection;  // null: sqlite-vec wrote it (foreign_vec0.h)
  SchemaWatch schema_watch;
};

struct QualifiedName {
  std::string schema;  // empty when none was written
  std::string table;
};

// "papers" or "schema.papers", either part perhaps "quoted", [quoted] or `quoted`.
// Throws Error{kInvalid}.
QualifiedName parse_name(const std::string& name);

// The schema that has a table or view of this name: the one that was written, whether it has
// one or not; else temp, main, then the attached ones.
std::optional<std::string> locate(sqlite3* db, const QualifiedName& name);

class Context {
 public:
  explicit Context(sqlite3* db) : db_(db) {}
  sqlite3* db() const { return db_; }

  void add(const std::shared_ptr<OpenTable>& table);
  void remove(const OpenTable& table);

  // The table of these arguments where an earlier connection of it is still held, by a transaction or
  // by a cursor, and it is what the schema has under their name by now. A schema that is rolled back,
  // or a rename, makes SQLite connect tables anew: both connections must see the same pending rows,
  // and the old one the same shadow tables.
  std::shared_ptr<OpenTable> still_open(const std::vector<std::string>& arguments);

  // "papers" or "schema.papers" (either part may be "quoted", [quoted] or `quoted`); ASCII
  // case-insensitive; without a schema: temp, main, then the attached ones. Connects the table when
  // this connection has not used it yet, and notices what other connections did to the schema.
  // Throws Error{kInvalid} "no such warp table: …", or that says what the name is instead.
  std::shared_ptr<OpenTable> find(const std::string& name);

  // Writes the rows that the transaction's tables hold in memory.
  void write_all(compute::Cancellation* cancellation);

  // Returns a report for a search that begins, which is the last one from now on.
  std::shared_ptr<engine::SearchReport> new_report(const TableDefinition& table,
                                                   const ColumnDefinition& column);
  // The same for a search of several parts: begin_search(), then a report for each.
  void begin_search() { last_reports_.clear(); }
  std::shared_ptr<engine::SearchReport> add_report(std::string table, std::string column,
                                                   std::string index);
  // Of the parts of the last search; empty: nothing was searched.
  const std::vector<std::shared_ptr<const engine::SearchReport>>& last_reports() const {
    return last_reports_;
  }

  int nested_queries = 0;  // statements of callers that run, one within another
  // Where each scan that begins says which rows it shows to SQLite; null: nobody asks.
  std::optional<engine::Filter>* scanned = nullptr;
  // Which rows take part in the search that asks FTS5 just now (fts5_source.h); null: none does.
  const std::function<bool(RowId)>* takes_part = nullptr;

 private:
  std::shared_ptr<OpenTable> lookup(const std::string& schema, const std::string& table);
  // Makes SQLite connect the table, and notice what other connections did to the schema.
  void connect(const std::string& schema, const std::string& table);

  sqlite3* db_;
  // Tables by schema and name as they were connected, in lower case. The last one of a name is the
  // table that SQLite has now; others are held from earlier.
  struct Known {
    std::string schema, table;
    std::weak_ptr<OpenTable> open;
  };
  std::vector<Known> tables_;
  std::vector<std::shared_ptr<const engine::SearchReport>> last_reports_;
};

// sqlite3_interrupt(), and progress handlers, as long work asks for them: by stepping a statement,
// which fails with SQLITE_INTERRUPT, and during which SQLite calls the handler. (To ask SQLite
// whether it was interrupted would leave handlers waiting.) Once a millisecond at most.
class Interrupt : public compute::Cancellation {
 public:
  explicit Interrupt(sqlite3* db);
  ~Interrupt() override;
  bool requested() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warplite::sql

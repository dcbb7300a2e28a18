// The table that a warp table with content= indexes: what it is, how its rows are read, and the
// triggers that tell of its changes (content_triggers.h).
// Threads: as the connection. Errors: Error{kInvalid} names the index, the content table and what
// to do; values are refused as an INSERT refuses them, but never as a constraint: the outer
// statement's OR IGNORE would skip the index and keep the row.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/table/content_source.h"
#include "sql/content/table_shape.h"
#include "sql/content/triggers.h"
#include "sql/definition/definition.h"
#include "sql/definition/values.h"
#include "sql/host/statement.h"

namespace warplite::sql {

class ContentTable final : public engine::ContentSource {
 public:
  ContentTable(sqlite3* db, const TableDefinition& definition);

  // Comes first in the life of an index: throws unless its columns can be found in an ordinary
  // table of the same schema.
  void verify();
  void create_triggers();
  // Begins a 'rebuild' by making missing or outdated triggers: the triggers went with a content
  // table that was dropped and made again, or are not what they would be if they were made now.
  void restore_triggers();
  void drop_triggers();
  // Comes before the index gets its new name.
  void rename_triggers(const std::string& new_index);
  // The index's name may change, and change back in a rollback: its collection knows it.
  void attach(const engine::Collection& collection) { collection_ = &collection; }

  // A +column of a row, NULL when there is no such row.
  Value aux(RowId rowid, const ColumnDefinition& column);
  // The same of rows in ascending rowid; columns that are asked for again and again are read by one
  // statement that goes on from row to row.
  class AuxWalk;
  // Says in error messages what to do in place of writing to the index.
  std::string advice() const;

  void read(std::span<const RowId> rowids, const Take& take) override;
  bool read_checked(RowId rowid, const Take& take) override;
  void scan_checked(const Take& take) override;
  void scan_rowids(const std::function<void(RowId)>& take) override;
  std::unique_ptr<Walk> walk(bool values) override;
  std::int64_t count() override;
  bool exists(RowId rowid) override;
  bool tells() const override { return definition_.content.triggers; }
  bool may_differ() const override { return !has_key_ || !definition_.content.triggers; }
  void check() override;
  Moment moment() override;

 private:
  enum class Sql {
    kExists, kPoint, kScan, kRowIds, kCountRows, kAux, kFrom, kIndexedFrom, kAuxFrom, kCount
  };
  using Columns = std::vector<const ColumnDefinition*>;
  class Use;
  class RowWalk;
  // The statement of kExists, and how often it was prepared again.
  struct Checked {
    const sqlite3_stmt* statement = nullptr;
    int prepared = 0;
    friend bool operator==(const Checked&, const Checked&) = default;
  };

  const std::string& index() const;
  [[noreturn]] void refuse(const std::string& why) const;
  [[noreturn]] void refuse(const FoundTrigger& other) const;
  void verify_kind(const TableShape& shape) const;
  void verify_rowid(const TableShape& shape) const;  // as content_rowid= names it
  void verify_columns(const TableShape& shape) const;
  TriggerTarget names() const;
  TriggerTarget target(const TableShape& shape) const;
  FoundTriggers triggers() const;
  std::string table_of(const FoundTriggers& found) const;
  void check_triggers() const;
  void settle();
  void settle_anew();
  void forget();
  Checked statement_of_exists() const;
  // `aux`: the +columns that kAuxFrom reads.
  std::string text_of(Sql sql, const Columns* aux) const;
  std::shared_ptr<sqlite3_stmt> prepare_statement(const std::string& text) const;
  [[noreturn]] void explain(int code, const std::string& message) const;
  Row row_of(sqlite3_stmt* statement);
  Row checked_row_of(sqlite3_stmt* statement);
  std::optional<Row> taken_row_of(sqlite3_stmt* statement);
  static Value aux_of(sqlite3_stmt* statement, int i, const ColumnDefinition& column);

  sqlite3* const db_;
  const TableDefinition definition_;
  const engine::Collection* collection_ = nullptr;
  std::string table_;           // its name now
  std::string rowid_ = "rowid"; // a name of its rowid
  bool has_key_ = true;         // an INTEGER PRIMARY KEY, which VACUUM keeps
  bool settled_ = false;        // the last three are so
  std::shared_ptr<sqlite3_stmt> statements_[static_cast<int>(Sql::kCount)];  // as needed
  Checked checked_;  // when check() looked last
  Columns indexed_;  // vectors, then plain columns
  Columns aux_;
  // Values of the row that was read last.
  std::vector<Cell> vectors_, plains_;
  std::vector<VectorInput> inputs_;
};

}  // namespace warplite::sql

// One table's life on one connection: storage, pending rows, snapshots.
//
// Writes collect in memory (engine/table/pending.h) and reach the shadow tables at sync()
// or when the buffer is large; what a savepoint needs to come back is kept.
// Transaction calls follow, as SQLite makes them (xCreate is followed by sync without begin):
//   (begin? (insert | update | erase | savepoint n | release n | rollback_to n)* (sync commit | sync? rollback))*
// rollback_to(n) may name a savepoint that was never announced, or −1: everything pending goes.
// sync() may be followed by more writes when COMMIT fails with BUSY. commit(), rollback(),
// savepoint(), release(), rollback_to() do not throw.
// Threads: as the connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/chunk.h"
#include "engine/table/table_options.h"
#include "engine/table/view.h"
#include "index/trained.h"

struct sqlite3;

namespace warplite::engine {

// A row to insert; cells are already of their column's type.
struct NewRow {
  std::optional<RowId> rowid;  // none: one more than the largest
  const Cell* vectors = nullptr;
  const Cell* plains = nullptr;
  const Cell* aux = nullptr;
};

enum class OnConflict { kAbort, kIgnore, kReplace };

class Collection {
 public:
  // xCreate: makes the shadow tables. xConnect: reads nothing, since what reads in a transaction that
  // has only begun cannot wait for another writer any more: SQLite asks no busy handler then.
  static std::shared_ptr<Collection> create(sqlite3* db, const std::string& schema,
                                            const std::string& table, TableOptions options);
  static std::shared_ptr<Collection> open(sqlite3* db, const std::string& schema,
                                          const std::string& table, TableOptions options);
  ~Collection();

  const TableOptions& options() const;
  const std::string& schema() const;
  const std::string& table() const;
  const index::Index& index(std::size_t vector_column) const;

  // xDestroy. check_drop() comes first: it throws where a savepoint needs rows that are nowhere but
  // here, since SQLite tells a dropped table of no rollback.
  void check_drop() const;
  void drop();
  void rename(const std::string& new_table);  // xRename

  // --- reading -----------------------------------------------------------
  // The current view: the transaction's snapshot and this connection's pending rows.
  std::shared_ptr<const View> view();
  std::optional<RowId> find_key(std::string_view key);  // TEXT PRIMARY KEY

  // --- writing -----------------------------------------------------------
  // Many rows are flushed at once, and coded where an index has learned: that may be cancelled.
  // Returns the rowid, or nothing when kIgnore met a duplicate. Throws Error{kConstraint}
  // ("UNIQUE constraint failed: t.id") for a duplicate rowid or key under kAbort.
  std::optional<RowId> insert(const NewRow& row, OnConflict conflict,
                              compute::Cancellation* cancellation = nullptr);
  // Replaces row `old`; row.rowid may differ. REQUIRES: row.rowid has a value.
  // False when kIgnore met a duplicate. No row `old`: does nothing, true.
  bool update(RowId old, const NewRow& row, OnConflict conflict,
              compute::Cancellation* cancellation = nullptr);
  bool erase(RowId rowid, compute::Cancellation* cancellation = nullptr);  // false: no such row
  // With content=: makes the row what the content table says it is.
  void follow(RowId rowid, compute::Cancellation* cancellation = nullptr);
  // The same for all rows, when there are none yet.
  void fill(compute::Cancellation* cancellation, const index::Progress& progress);

  // Says whether it goes by this name and, in the middle of a transaction, is what the schema has
  // under it by now: a rename, or a rollback, may have put another table there.
  bool continues(const std::string& name) const;
  bool in_transaction() const;  // of its own: begin() was called
  void begin();
  // Writes what is pending. Part of sync(), for those who have more than one table to write:
  // nothing can be written once the host was interrupted, and what follows in sync() takes long.
  // Codes that are being made are waited for until that is cancelled, and then made later.
  void write(compute::Cancellation* cancellation = nullptr);
  // Afterwards an index that learns is trained, if it has enough rows and no model yet, and reports
  // it; and segments get codes. An interrupt is no error: it leaves that to the next transaction.
  // Nor is training_limit() (engine/training/training.h): it leaves that to optimize() and train().
  void sync(compute::Cancellation* cancellation = nullptr, const index::Progress& progress = {});
  void commit() noexcept;
  void rollback() noexcept;
  void savepoint(int n) noexcept;
  void release(int n) noexcept;
  void rollback_to(int n) noexcept;

  // --- commands ----------------------------------------------------------
  // Merges small and sparse segments, re-clusters partitions. Has indexes learn that would at the
  // end of a transaction, or had no time for it there.
  void optimize(compute::Cancellation* cancellation = nullptr,
                const index::Progress& progress = {});
  // Rewrites everything, with content= from the content table, and has indexes that learn learn
  // again, if there are rows enough.
  void rebuild(compute::Cancellation* cancellation = nullptr,
               const index::Progress& progress = {});
  // Has every index that learns learn from the rows there are, and codes them; tail rows become
  // a segment for that. Columns of which nothing but codes was kept stay with their models.
  // Throws Error{kInvalid} when no column has such an index, or none can learn because there are
  // too few rows; then nothing has changed.
  void train(compute::Cancellation* cancellation, const index::Progress& progress);
  // Gives a vector column a model that an index declared alike has learnt elsewhere (the bytes of
  // its index::Model), and codes the rows there are with it. It stays until train() or rebuild() is
  // asked for. Throws Error{kInvalid} when the index learns nothing, has learnt already, or takes
  // no such model; then nothing has changed.
  void use_model(std::size_t vector_column, std::span<const std::byte> bytes,
                 compute::Cancellation* cancellation, const index::Progress& progress);
  // Faults found. Pending rows stay so, unless others of the transaction were flushed before.
  // With content=, rows that are not as the content table has them are faults as well: none of
  // them, all but those that went without a word (which searches pass over), or all.
  enum class AgainstContent { kNothing, kButVanished, kAll };
  std::vector<std::string> integrity_check(compute::Cancellation* cancellation = nullptr,
                                           AgainstContent against = AgainstContent::kAll);

 private:
  struct Impl;
  explicit Collection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace warplite::engine

// The SQL that reaches the shadow tables: one array of texts, prepared when first
// used and kept. Threads: as the connection. Errors: Error{kHost} with SQLite's
// code and message, after the table's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/chunk.h"
#include "core/process/stamp.h"
#include "core/value.h"
#include "storage/sqlite_api.h"

namespace warplite::storage {

enum class Sql : std::uint8_t {
  kReadState,
  kWriteState,
  kReadSegments,
  kWriteSegment,
  kEraseSegment,
  kWriteBlock,
  kEraseBlocks,
  kReadTail,
  kTailFlush,
  kTailSum,
  kNewestFlush,
  kAppendTail,
  kEraseTail,
  kClearTail,
  kWriteAux,
  kEraseAux,
  kFindKey,
  kWriteKey,
  kEraseKey,
  kCountTail,
  kBlockIds,
  kAuxIds,
  kKeys,
  kSchema,
  kRootPage,
  kPageCount,
  kPageSize,
  kReadAux,  // last: one statement for each +column
};

// Throws Error{kHost} with the connection's current error, or Error{kInterrupted}. `returned`: by a
// function that may leave the connection's error as it was.
[[noreturn]] void throw_host(sqlite3* db, const std::string& table, int returned = SQLITE_OK);

// One use of a prepared statement: parameters are bound in order, then it is stepped.
// The end of the use resets it and lets go of what was bound. Bound bytes are
// borrowed until then.
class Execution {
 public:
  enum class Ends { kReset, kFinalized };

  Execution(sqlite3* db, const std::string& table, sqlite3_stmt* statement, Ends ends)
      : db_(db), table_(&table), statement_(statement), ends_(ends) {}
  ~Execution() {
    if (ends_ == Ends::kFinalized) {
      sqlite3_finalize(statement_);
      return;
    }
    sqlite3_reset(statement_);
    if (bound_ > 0) sqlite3_clear_bindings(statement_);
  }
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  Execution& bind(std::int64_t value);
  Execution& bind_blob(std::span<const std::byte> bytes);
  Execution& bind_zeros(std::size_t bytes);  // a blob of them
  Execution& bind_stamp(const Stamp& stamp);  // copied
  Execution& bind_cell(const Cell& cell);

  // True for a row, false at the end.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) throw_host(db_, *table_);
    return false;
  }
  // Runs a statement without rows; the statement is ready for the next set of parameters.
  void run();

  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  // Empty unless the value is a blob. Valid until the next step.
  std::span<const std::byte> blob(int column) const;
  // Returns the cell as stored: valid until the next step.
  Cell cell(int column) const;
  // Returns nothing unless the value is a stamp's 16 bytes.
  std::optional<Stamp> stamp(int column) const;

 private:
  void check(int code) const {
    if (code != SQLITE_OK) throw_host(db_, *table_, code);
  }

  sqlite3* db_;
  const std::string* table_;
  sqlite3_stmt* statement_;
  const Ends ends_;
  int bound_ = 0;
};

class Statements {
 public:
  // `table` outlives the statements; `layout` gives the columns.
  Statements(sqlite3* db, const std::string& schema, const std::string& table,
             const Layout& layout);
  ~Statements();
  Statements(const Statements&) = delete;
  Statements& operator=(const Statements&) = delete;

  // A progress handler may run statements of its own while one of these runs: what is in use then gets
  // a second statement.
  Execution use(Sql sql, std::size_t column = 0) {
    Kept& kept = cached_[static_cast<std::size_t>(sql) + column];
    const bool busy = kept.statement != nullptr && sqlite3_stmt_busy(kept.statement);
    if (busy) return {db_, table_, prepare(sql, column), Execution::Ends::kFinalized};
    if (kept.stale) end(kept);
    if (kept.statement == nullptr) kept.statement = prepare(sql, column);
    return {db_, table_, kept.statement, Execution::Ends::kReset};
  }
  // Ends all statements: tables are about to be dropped or renamed. One that runs, whose failure
  // may be what undoes a name, ends before it is used again.
  void finalize() noexcept;

  // Runs SQL in which {state}, {segments} … stand for the tables' quoted names.
  void execute(std::string_view pattern);
  std::string expand(std::string_view pattern, std::size_t column = 0) const;

 private:
  struct Kept {
    sqlite3_stmt* statement = nullptr;
    bool stale = false;  // of names that the tables have no longer
  };
  static void end(Kept& kept) noexcept {
    sqlite3_finalize(kept.statement);
    kept = {};
  }
  sqlite3_stmt* prepare(Sql sql, std::size_t column) const;

  sqlite3* db_;
  const std::string& schema_;
  const std::string& table_;
  const Layout& layout_;
  std::vector<Kept> cached_;
};

// While it lives, a limit of the connection is what SQLite was built for. An application bounds what
// those may do who write its SQL; the statements and the blocks of this file are not theirs.
class LiftedLimit {
 public:
  LiftedLimit(sqlite3* db, int limit)
      : db_(db), limit_(limit), before_(sqlite3_limit(db, limit, std::numeric_limits<int>::max())) {}
  ~LiftedLimit() { sqlite3_limit(db_, limit_, before_); }
  LiftedLimit(const LiftedLimit&) = delete;
  LiftedLimit& operator=(const LiftedLimit&) = delete;

 private:
  sqlite3* const db_;
  const int limit_;
  const int before_;
};

// Keeps sqlite3_last_insert_rowid() as the user last saw it.
class KeepLastInsertRowid {
 public:
  explicit KeepLastInsertRowid(sqlite3* db) : db_(db), rowid_(sqlite3_last_insert_rowid(db)) {}
  ~KeepLastInsertRowid() { sqlite3_set_last_insert_rowid(db_, rowid_); }
  KeepLastInsertRowid(const KeepLastInsertRowid&) = delete;
  KeepLastInsertRowid& operator=(const KeepLastInsertRowid&) = delete;

 private:
  sqlite3* db_;
  sqlite3_int64 rowid_;
};

}  // namespace warplite::storage

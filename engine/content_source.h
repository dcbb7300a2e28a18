// The table that an application owns and a table with content= indexes, as the engine reads it:
// by rowid, with every indexed value converted as an INSERT would convert it. sql/ implements it.
// Threads: as the connection. Everything is read inside the host's transaction.
// Errors: Error{kInvalid} that says what to do when the table or a column of it is gone;
// Error{kHost} passes a SQLite code on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/types.h"
#include "core/value.h"

namespace warplite::engine {

class ContentSource {
 public:
  virtual ~ContentSource() = default;

  // Cells per Layout::vectors and Layout::plains, valid until the next call or row.
  struct Row {
    RowId rowid;
    const Cell* vectors;
    const Cell* plains;
  };
  using Take = std::function<void(const Row&)>;

  // Those of the rows that are there and hold what the columns take, in order; others are passed
  // over. REQUIRES: rowids ascend.
  virtual void read(std::span<const RowId> rowids, const Take& take) = 0;
  // One row, whose values are refused as an INSERT refuses them. False: there is none.
  virtual bool read_checked(RowId rowid, const Take& take) = 0;
  // All rows in ascending rowid, values refused likewise.
  virtual void scan_checked(const Take& take) = 0;
  // All rowids, ascending.
  virtual void scan_rowids(const std::function<void(RowId)>& take) = 0;

  virtual std::int64_t count() = 0;
  virtual bool exists(RowId rowid) = 0;
  // Whether changes are told. Even then rows may go without a word (content_hits.h).
  virtual bool tells() const = 0;
  // Whether rows may change without a word, so that a row that exists may be another one by now.
  virtual bool may_differ() const = 0;

  // Throws when the table, a column that is needed or what tells of changes is gone.
  virtual void check() = 0;

  // The same as before only if the table is as it was then.
  struct Moment {
    std::uint64_t commits = 0;  // counts what comes to the file
    std::uint64_t changes = 0;  // counts changes of this connection
    bool known = false;         // in a transaction that has written, anything may be rolled back
    bool same(const Moment& earlier) const {
      return known && earlier.known && commits == earlier.commits && changes == earlier.changes;
    }
  };
  virtual Moment moment() = 0;
};

}  // namespace warplite::engine

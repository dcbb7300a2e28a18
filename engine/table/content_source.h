// The table that an application owns and a table with content= indexes, as the engine reads it:
// by rowid, with every indexed value converted as an INSERT would convert it. sql/ implements it.
// Threads: as the connection. Everything is read inside the host's transaction.
// Errors: Error{kInvalid} that says what to do when the table or a column of it is gone;
// Error{kHost} passes a SQLite code on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <vector>

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

  // Takes those of the rows that exist and hold what the columns take, in order; others are passed
  // over. REQUIRES: rowids ascend.
  virtual void read(std::span<const RowId> rowids, const Take& take) = 0;
  // Reads one row, whose values are refused as an INSERT refuses them. Returns false if there is
  // none.
  virtual bool read_checked(RowId rowid, const Take& take) = 0;
  // All rows in ascending rowid, values refused likewise.
  virtual void scan_checked(const Take& take) = 0;
  // All rowids, ascending.
  virtual void scan_rowids(const std::function<void(RowId)>& take) = 0;

  // Looks rows up one after another: each answer is what a look-up of its own would say at that
  // moment, whatever is written meanwhile. Where rowids ascend and hardly any is left out, a row
  // costs a step of one statement in place of a statement.
  class Walk {
   public:
    virtual ~Walk() = default;
    // Says whether there is such a row.
    virtual bool to(RowId rowid) = 0;
    // It, valid until the next call; null when it holds what a column does not take.
    // REQUIRES: to() said true, and values were asked for.
    virtual const Row* row() = 0;
    // Lets go of the statement, which to() begins again.
    virtual void rest() = 0;
  };
  // `values`: row() is wanted; else nothing is read but rowids.
  virtual std::unique_ptr<Walk> walk(bool values) = 0;

  virtual std::int64_t count() = 0;
  virtual bool exists(RowId rowid) = 0;
  // Says whether rows may change without a word, so that a row that exists may be another one by
  // now. Even where changes are told, rows may go without a word (content_hits.h).
  virtual bool may_differ() const = 0;

  // Says whether triggers tell of changes.
  virtual bool tells() const = 0;

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

  // Rows of the index that are gone from the table without a word, as far as somebody met them. What
  // the index writes next takes them out of it, unless rows may come back without a word, too.
  // Those beyond what is noted are met again.
  void note_gone(RowId rowid) {
    if (gone_.size() < kMostNoted && tells()) gone_.insert(rowid);
  }
  // So many that a write takes no longer than some milliseconds more; the next one takes the others.
  std::vector<RowId> take_gone() {
    std::vector<RowId> taken;
    while (!gone_.empty() && taken.size() < kMostTaken) {
      taken.push_back(*gone_.begin());
      gone_.erase(gone_.begin());
    }
    return taken;
  }

 private:
  static constexpr std::size_t kMostNoted = std::size_t{1} << 16;
  static constexpr std::size_t kMostTaken = std::size_t{1} << 14;
  std::set<RowId> gone_;
};

}  // namespace warplite::engine

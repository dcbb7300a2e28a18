// The state machine of one table in the host's transaction: pending rows, savepoints, and
// what each savepoint needs to come back. Knows no SQLite and writes nothing.
// Calls follow, as SQLite makes them (DESIGN §3):
//   (begin? (write | savepoint n | release n | rollback_to n | flush)* (commit | rollback))*
// where a flush is: freeze(), then finish_flush() when every write succeeded. Where SQLite has
// connected the table twice in one transaction, all but the flush come twice, and the second
// time changes nothing.
// Threads: one. begin() to rollback_to() do not throw; what they could not do makes the next
// write fail instead.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/table/pending.h"

namespace warplite::engine {

struct Snapshot;

class Transaction {
 public:
  explicit Transaction(const Layout& layout) : layout_(&layout), pending_(layout) {}
  ~Transaction() { drop_spares(); }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Pending& pending() { return pending_; }
  const Pending& pending() const { return pending_; }
  // The committed state that pending rows refer to; null when it must be read again.
  const std::shared_ptr<const Snapshot>& base() const { return base_; }
  void set_base(std::shared_ptr<const Snapshot> base) { base_ = std::move(base); }

  // Returns how many flushes of this transaction base() includes.
  std::size_t flushes() const { return flushes_; }

  bool active() const { return active_; }
  void begin() noexcept;
  void commit() noexcept;
  void rollback() noexcept;
  // `renames`: of the table so far, which rollback_to() gives back.
  void savepoint(int n, std::size_t renames = 0) noexcept;
  void release(int n) noexcept;
  // Returns how many renames of the table remain.
  std::size_t rollback_to(int n) noexcept;

  // Returns whether rows were written before a savepoint that is open, and by then were not
  // flushed, or lay in segments that the directory did not have. The newest savepoint is not
  // counted, which is that of the statement which asks.
  bool savepoints_hold_rows() const noexcept;

  // Chunks that wait for later rows, as Pending has them. After a transaction that flushed on the
  // way they wait for the next one, which may be more of the same load: of one table of the
  // process.
  void drop_spares() noexcept;

  // Throws when something went wrong that only a rollback can mend. Comes before every write.
  void check_writable() const;
  // The same for reading, which a savepoint that could not be recorded does not prevent.
  void check_readable() const;
  // The shadow tables may be half-written: nothing more is written until they are rolled back.
  void mark_torn() noexcept { failure_ = Failure::kTorn; }

  // Returns what open savepoints need of the pending rows that are about to be flushed.
  std::shared_ptr<Pending::Frozen> freeze() const;
  // The flush succeeded: `rest` is still pending, `base` is what was written.
  void finish_flush(std::shared_ptr<Pending::Frozen> frozen, Pending&& rest,
                    std::shared_ptr<const Snapshot> base) noexcept;

 private:
  enum class Failure {
    kNone,
    kTorn,      // a flush failed half-way
    kLost,      // rolling back to a savepoint ran out of memory
    kUnmarked,  // a savepoint could not be recorded
  };
  struct Savepoint {
    int n;
    std::size_t renames;
    std::size_t flushes;
    Failure failure;  // of before, which a rollback to this does not mend
    Pending::Mark mark;
    // Set when the rows were flushed; null while they are still in pending_.
    std::shared_ptr<const Snapshot> base;
    std::shared_ptr<Pending::Frozen> frozen;
  };
  void clear() noexcept;
  void restore(const Savepoint& savepoint) noexcept;

  const Layout* layout_;
  bool active_ = false;
  bool connected_again_ = false;  // since the last savepoint
  Pending pending_;
  std::shared_ptr<const Snapshot> base_;
  std::shared_ptr<const Snapshot> first_base_;  // before the transaction's first flush
  std::size_t flushes_ = 0;
  std::vector<Savepoint> savepoints_;  // ascending n
  Failure failure_ = Failure::kNone;
  int unmarked_ = 0;  // with kUnmarked: the first savepoint that is missing
};

}  // namespace warplite::engine

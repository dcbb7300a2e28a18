// The inside of a Collection: collection.cc reads, collection_write.cc writes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/process/interruption.h"
#include "engine/collection.h"
#include "engine/flush.h"
#include "engine/rewrite.h"
#include "engine/table/transaction.h"
#include "engine/training/coding_ahead.h"

namespace warplite::engine {

struct Collection::Impl {
  Impl(sqlite3* db, const std::string& schema, const std::string& table, TableOptions given);

  // A live row, wherever it is.
  struct LiveRow {
    bool pending;
    std::uint64_t number;    // pending: its number
    CommittedRow committed;  // otherwise
  };

  Pending& pending() { return transaction.pending(); }
  // Rows or directory entries that only this connection knows of.
  bool unwritten() {
    return !pending().empty() || (transaction.base() != nullptr && transaction.base()->unlisted);
  }
  bool present();
  void refresh();
  void settle();
  void settle_segments();
  void settle_models();
  void unsettle();
  void prepare_write();
  std::shared_ptr<const View> make_view();
  void remember_view();
  std::shared_ptr<const Part> overlay(std::int64_t source, std::uint64_t version,
                                      const std::shared_ptr<const Part>& base);
  struct Overlay;
  std::shared_ptr<const Part> overlay_tail(Overlay& known, std::uint64_t version,
                                           const std::shared_ptr<const Part>& base);

  std::optional<LiveRow> locate(RowId rowid);
  std::optional<RowId> find_key(std::string_view key);
  RowId next_rowid();
  void erase(RowId rowid, const LiveRow& row);
  std::optional<RowId> conflicting_key(const NewRow& row, const std::optional<RowId>& self);
  bool clear_conflicts(const NewRow& row, const std::optional<RowId>& self, OnConflict conflict);
  bool clear_conflict(RowId other, const std::string& column, OnConflict conflict);
  void append(RowId rowid, const NewRow& row);
  template <typename Body>
  void change_or_undo(const Body& body);
  template <typename Body>
  void write_or_undo(const Body& body);
  WriteContext write_context() {
    return {store, options, transaction.base(), readers(), cancellation};
  }
  void code_ahead();
  void code_last();
  void flush_when_large();
  template <typename Write>
  void write_tables(const Write& write);
  // `waiting` ends the wait for codes that are being made.
  void flush_pending(FlushScope scope, compute::Cancellation* waiting);
  void flush_pending(FlushScope scope) { flush_pending(scope, cancellation); }
  void list_segments();
  void rewrite_segments(RewriteScope scope);
  storage::ModelOrigin origin(std::size_t column);
  bool gone(std::size_t column) const;
  void forget_thoughts() noexcept;
  bool wants_model(std::size_t column);
  void train_when_worthwhile(const index::Progress& progress);
  void merge_small_segments();
  bool code_segments(OnInterrupt on_interrupt, const index::Progress& progress);
  void train_again(const index::Progress& progress);
  void train_what_waits(const index::Progress& progress);
  std::string subject(std::size_t column) const;
  std::shared_ptr<const index::InvertedModel> measurable(std::size_t column);
  bool recall_is_dated(std::size_t column, const index::InvertedModel& model, double changed);
  std::optional<NewModel> measure_column(std::size_t column, double changed,
                                         const index::Progress& progress);
  template <typename Body>
  std::optional<NewModel> unless_damaged(std::size_t column, const Body& body);
  std::optional<NewModel> measure_in_time(std::size_t column, double changed,
                                          const index::Progress& progress);
  std::optional<NewModel> restore_recall(std::size_t column, const index::Progress& progress);
  NewModel learn_column(std::size_t column, std::uint32_t seconds,
                        const index::Progress& progress);
  std::optional<NewModel> try_to_learn(std::size_t column, std::uint32_t seconds,
                                       const index::Progress& progress);
  std::optional<NewModel> learn_in_time(std::size_t column, const index::Progress& progress);
  bool install(const std::vector<NewModel>& models, OnInterrupt on_interrupt,
               const index::Progress& progress);
  std::vector<std::shared_ptr<const View>> readers() const;
  void undo_views() noexcept;
  // These serve tables with content=:
  void look_again();
  void look_again_before_writing();
  void erase_gone();
  void erase_gone(const std::vector<RowId>& rowids);
  void erase_all_gone();
  std::uint64_t hash(const LiveRow& row);
  void fill(const index::Progress& progress);
  void refill(const index::Progress& progress);
  void roll_back() noexcept;
  [[noreturn]] void throw_rolled_back() const;
  // There are other rows now, or may be.
  void drop_view() noexcept {
    if (view != nullptr) view->outdate();
    view = nullptr;
  }
  void forget_view() noexcept {
    drop_view();
    largest = std::nullopt;
  }

  const TableOptions options;
  storage::Store store;
  Transaction transaction;
  Stamp created;                     // the first generation, in the transaction that made the table
  // Of the last committed version that was seen:
  Stamp settled_generation;
  std::shared_ptr<const SegmentList> settled;
  std::unique_ptr<HeldBlocks> settled_models;
  bool base_current = false;         // base was compared with the file in this transaction
  std::shared_ptr<const View> view;  // of base and pending as they are; null when unknown
  struct HeldView {
    std::weak_ptr<const View> view;
    std::size_t flushes;  // of this transaction, that it shows
  };
  std::vector<HeldView> held;                   // views that somebody may still hold
  std::optional<RowId> largest;                 // live rowid; unset when unknown
  struct Overlay {
    std::uint64_t version;
    std::shared_ptr<const Part> part;
    // Of the tail: Pending::tail_restart(), and how many erasures of the log it has.
    std::uint64_t restart = 0;
    std::size_t erasures = 0;
  };
  std::unordered_map<std::int64_t, Overlay> overlays;  // by Erasure::source
  bool busy = false;                                   // shadow tables are being written
  bool rollback_waits = false;                         // the host rolled back meanwhile
  compute::Cancellation* cancellation = nullptr;       // of the call that is being served
  std::vector<std::uint64_t> trained_in_vain;          // rows per column that were too few
  std::vector<std::uint64_t> compared_rows;            // newer ones per column that were like the others
  std::int64_t considered_segment = 0;                 // next number when that was thought of last
  ContentSource::Moment moment;                        // of the last look_again()
  CodingAhead ahead;                                   // of pending rows
};

// Keeps, for the duration of one call, whose request to end it is obeyed.
class Serving {
 public:
  Serving(compute::Cancellation*& slot, compute::Cancellation* cancellation)
      : slot_(slot), before_(std::exchange(slot, cancellation)), interruptible_(cancellation) {}
  ~Serving() { slot_ = before_; }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  compute::Cancellation*& slot_;
  compute::Cancellation* const before_;
  const Interruptible interruptible_;
};

// Runs `body` (which changes pending rows) wholly or not at all.
template <typename Body>
void Collection::Impl::change_or_undo(const Body& body) {
  const Pending::Mark mark = pending().mark();
  try {
    body();
  } catch (...) {
    pending().truncate(mark);
    forget_view();
    throw;
  }
}

// Runs `write` (a FlushResult(const WriteContext&)), which changes the shadow tables, and publishes
// its result.
template <typename Write>
void Collection::Impl::write_tables(const Write& write) {
  std::shared_ptr<Pending::Frozen> frozen = transaction.freeze();
  busy = true;
  drop_view();  // so that only others' views count as readers
  try {
    FlushResult result = write(write_context());
    if (rollback_waits) throw_rolled_back();
    transaction.finish_flush(std::move(frozen), std::move(result.rest), std::move(result.snapshot));
    overlays.clear();
  } catch (...) {
    busy = false;
    forget_view();
    // If the host has rolled back already, in a statement of ours, nothing is left to mend.
    if (rollback_waits || !transaction.active()) {
      roll_back();
    } else {
      transaction.mark_torn();
    }
    throw;
  }
  busy = false;
}

}  // namespace warplite::engine

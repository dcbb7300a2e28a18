#include <algorithm>
#include <limits>
#include <utility>

#include "engine/collection_impl.h"
#include "engine/residency/residency.h"

namespace warplite::engine {
namespace {

constexpr int kHostFull = 13;      // SQLITE_FULL
constexpr int kHostAborted = 516;  // SQLITE_ABORT_ROLLBACK
constexpr RowId kLargestRowid = std::numeric_limits<RowId>::max();

}  // namespace

void Collection::Impl::prepare_write() {
  // SQLite goes on with a statement whose own function rolled back, and begins nothing anew.
  if (!transaction.active()) throw_rolled_back();
  transaction.check_writable();
  if (base_current && transaction.base() != nullptr) return;
  refresh();
  base_current = true;
}

// Returns one more than the largest rowid, or a random one when that is the last there is, as
// SQLite does.
RowId Collection::Impl::next_rowid() {
  if (!largest) {
    if (view == nullptr) view = make_view();
    largest = view->max_rowid();
    if (!largest) return 1;
  }
  if (*largest != kLargestRowid) return *largest + 1;
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto rowid = static_cast<RowId>(new_stamp().low >> 2) + 1;
    if (!locate(rowid)) return rowid;
  }
  throw Error(ErrorKind::kHost, kHostFull, "no free rowid was found for " + store.table());
}

void Collection::Impl::erase(RowId rowid, const LiveRow& row) {
  if (row.pending) {
    pending().erase_pending(row.number);
  } else {
    pending().erase_committed({row.committed.source, row.committed.row, rowid});
  }
  drop_view();
  if (largest == rowid) largest = std::nullopt;
}

// The row other than `self` that has the new row's text key.
// REQUIRES: there is a text key.
std::optional<RowId> Collection::Impl::conflicting_key(const NewRow& row,
                                                       const std::optional<RowId>& self) {
  const Cell& key = row.plains[options.layout.text_key];
  if (key.is_null()) {
    throw Error(ErrorKind::kConstraint,
                "NOT NULL constraint failed: " + store.table() + "." +
                    options.plain_names[static_cast<std::size_t>(options.layout.text_key)]);
  }
  const std::optional<RowId> other = find_key(key.bytes);
  return other == self ? std::nullopt : other;
}

// Makes room for a row whose place is taken; false when the new row is to be ignored.
bool Collection::Impl::clear_conflict(RowId other, const std::string& column, OnConflict conflict) {
  if (conflict == OnConflict::kIgnore) return false;
  if (conflict == OnConflict::kAbort) {
    throw Error(ErrorKind::kConstraint,
                "UNIQUE constraint failed: " + store.table() + "." + column);
  }
  if (const std::optional<LiveRow> row = locate(other)) erase(other, *row);
  return true;
}

// `self`: the row that is being replaced, if any.
bool Collection::Impl::clear_conflicts(const NewRow& row, const std::optional<RowId>& self,
                                       OnConflict conflict) {
  if (row.rowid && row.rowid != self) {
    const RowId bound = std::max(transaction.base()->rowid_bound(), pending().rowid_bound());
    if (*row.rowid <= bound && locate(*row.rowid) &&
        !clear_conflict(*row.rowid, options.rowid_name, conflict)) {
      return false;
    }
  }
  if (options.layout.text_key < 0) return true;
  const std::optional<RowId> other = conflicting_key(row, self);
  if (!other) return true;
  const auto key = static_cast<std::size_t>(options.layout.text_key);
  return clear_conflict(*other, options.plain_names[key], conflict);
}

void Collection::Impl::append(RowId rowid, const NewRow& row) {
  pending().append({rowid, row.vectors, row.plains, row.aux});
  code_ahead();
  drop_view();
  if (largest && rowid > *largest) largest = rowid;
}

template <typename Body>
void Collection::Impl::write_or_undo(const Body& body) {
  change_or_undo(body);
  flush_when_large();
}

// Fails as a write does: where the model cannot be read for want of memory, SQLite may have taken
// the transaction back, and no row may follow.
void Collection::Impl::code_ahead() {
  const Pending::Slot& last = pending().slots().back();
  if (options.layout.partitions.empty() && last.is_whole() && !ahead.has(*last.chunk)) {
    ahead.begin(write_context(), last);
  }
}

// The rows that are left at the end of a load will be a segment that is not full: they are coded
// while those before them are written.
void Collection::Impl::code_last() {
  const std::vector<Pending::Slot>& slots = pending().slots();
  if (slots.empty() || !options.layout.partitions.empty()) return;
  const Pending::Slot& last = slots.back();
  const bool load = slots.size() > 1 || transaction.base()->unlisted;
  const std::size_t least = least_segment(options, transaction.base()->state, load);
  const bool segment = load && last.used >= least && last.is_in_order();
  if (segment && !ahead.has(*last.chunk)) ahead.begin(write_context(), last);
}

void Collection::Impl::flush_when_large() {
  const std::size_t left = std::min(ahead.size(), CodingAhead::kMostLeft) * pending().slot_bytes();
  if (pending().bytes() >= options.flush_bytes + left) flush_pending(FlushScope::kFullChunks);
}

void Collection::Impl::throw_rolled_back() const {
  throw Error(ErrorKind::kHost, kHostAborted,
              store.table() + ": the transaction was rolled back while it was written");
}

void Collection::Impl::flush_pending(FlushScope scope, compute::Cancellation* waiting) {
  const bool lists = scope == FlushScope::kAll && transaction.base()->unlisted;
  look_again_before_writing();
  if (scope == FlushScope::kAll) code_last();
  if (pending().has_changes() || lists) {
    write_tables([&](WriteContext context) {
      context.cancellation = waiting;
      return flush(context, pending(), ahead, scope);
    });
  } else if (!pending().empty()) {
    transaction.finish_flush(transaction.freeze(), Pending(options.layout), transaction.base());
    forget_view();
  }
  ahead.keep_only(pending().slots());
}

// Writes what an earlier flush of this transaction left to a later one.
void Collection::Impl::list_segments() {
  if (transaction.base() == nullptr || !transaction.base()->unlisted) return;
  prepare_write();
  flush_pending(FlushScope::kAll);
}

void Collection::Impl::rewrite_segments(RewriteScope scope) {
  prepare_write();
  look_again();
  flush_pending(FlushScope::kAll);
  write_tables([&](const WriteContext& context) {
    return FlushResult{rewrite(context, scope), Pending(options.layout)};
  });
}

void Collection::Impl::roll_back() noexcept {
  rollback_waits = false;
  base_current = false;
  moment = {};
  drop_view();  // first: what holds no chunk lets it be used again
  overlays.clear();
  transaction.rollback();
  ahead.keep_only(pending().slots());
  undo_views();
  store.undo_renames(0);
  created = {};
  forget_view();
  forget_thoughts();
}

// --- the interface ---------------------------------------------------------

std::optional<RowId> Collection::insert(const NewRow& row, OnConflict conflict,
                                        compute::Cancellation* cancellation) {
  const Serving serving(impl_->cancellation, cancellation);
  impl_->prepare_write();
  std::optional<RowId> inserted;
  impl_->write_or_undo([&] {
    // The rowid is chosen before a conflicting row makes room: as in a plain table, its rowid is
    // not given again at once.
    const RowId rowid = row.rowid ? *row.rowid : impl_->next_rowid();
    if (!impl_->clear_conflicts(row, std::nullopt, conflict)) return;
    impl_->append(rowid, row);
    inserted = rowid;
  });
  return inserted;
}

bool Collection::update(RowId old, const NewRow& row, OnConflict conflict,
                        compute::Cancellation* cancellation) {
  const Serving serving(impl_->cancellation, cancellation);
  impl_->prepare_write();
  bool done = true;
  impl_->write_or_undo([&] {
    if (!impl_->locate(old)) return;
    done = impl_->clear_conflicts(row, old, conflict);
    if (!done) return;
    impl_->erase(old, *impl_->locate(old));
    impl_->append(*row.rowid, row);
  });
  return done;
}

bool Collection::erase(RowId rowid, compute::Cancellation* cancellation) {
  const Serving serving(impl_->cancellation, cancellation);
  impl_->prepare_write();
  bool found = false;
  impl_->write_or_undo([&] {
    const auto row = impl_->locate(rowid);
    found = row.has_value();
    if (found) impl_->erase(rowid, *row);
  });
  return found;
}

bool Collection::continues(const std::string& name) const {
  if (table() != name) return false;
  if (!impl_->transaction.active()) return true;
  impl_->transaction.check_readable();
  return impl_->present();
}

bool Collection::in_transaction() const { return impl_->transaction.active(); }

void Collection::begin() {
  if (!impl_->transaction.active()) {
    impl_->store.settle_name();
    impl_->store.keep_name();
    impl_->base_current = false;
  }
  impl_->transaction.begin();
}

void Collection::write(compute::Cancellation* cancellation) {
  impl_->transaction.check_readable();
  if (!impl_->unwritten()) return;
  // SQLite does not tell of a savepoint that is rolled back from before the table was made.
  if (!impl_->created.is_null() && !impl_->present()) return impl_->roll_back();
  impl_->prepare_write();
  impl_->flush_pending(FlushScope::kAll, cancellation);
}

void Collection::sync(compute::Cancellation* cancellation, const index::Progress& progress) {
  write(cancellation);
  if (!impl_->base_current || impl_->transaction.base() == nullptr) return;  // nothing was written
  const Serving serving(impl_->cancellation, cancellation);
  impl_->train_when_worthwhile(progress);
}

void Collection::commit() noexcept {
  impl_->transaction.commit();
  try {
    impl_->settle();
  } catch (...) {  // no memory: the next statement does it
  }
  constexpr std::size_t kPartOfMemory = 8;
  const std::size_t limit = Residency::instance().limit() / kPartOfMemory;
  if (impl_->pending().spare_bytes() > limit) impl_->transaction.drop_spares();
  for (Impl::HeldView& known : impl_->held) known.flushes = 0;
  impl_->created = {};
  impl_->store.keep_name();
  impl_->base_current = false;
}

void Collection::rollback() noexcept {
  if (impl_->busy) {
    impl_->rollback_waits = true;  // the flush that is under way does it
    return;
  }
  impl_->roll_back();
}

// Statements that write the shadow tables open savepoints of their own; those are not ours.
void Collection::savepoint(int n) noexcept {
  if (!impl_->busy) impl_->transaction.savepoint(n, impl_->store.renames());
}

void Collection::release(int n) noexcept {
  if (!impl_->busy) impl_->transaction.release(n);
}

void Collection::rollback_to(int n) noexcept {
  if (impl_->busy) return;
  impl_->base_current = false;
  impl_->moment = {};
  impl_->forget_view();
  impl_->overlays.clear();
  impl_->store.undo_renames(impl_->transaction.rollback_to(n));
  impl_->ahead.keep_only(impl_->pending().slots());
  impl_->undo_views();
  impl_->forget_thoughts();
}

void Collection::optimize(compute::Cancellation* cancellation, const index::Progress& progress) {
  const Serving serving(impl_->cancellation, cancellation);
  impl_->erase_all_gone();
  impl_->rewrite_segments(RewriteScope::kWorthwhile);
  impl_->train_what_waits(progress);
}
void Collection::rebuild(compute::Cancellation* cancellation, const index::Progress& progress) {
  if (impl_->options.layout.codes_only) {
    throw Error(ErrorKind::kInvalid,
                table() + ": rebuild needs vectors, but store=codes keeps none; optimize merges "
                          "segments by their codes");
  }
  const Serving serving(impl_->cancellation, cancellation);
  if (impl_->options.content != nullptr) return impl_->refill(progress);
  impl_->rewrite_segments(RewriteScope::kEverything);
  impl_->train_again(progress);
}

}  // namespace warplite::engine

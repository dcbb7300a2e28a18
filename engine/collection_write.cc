#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "engine/collection_impl.h"
#include "engine/filter/content_hits.h"
#include "engine/trained/training.h"

namespace warplite::engine {
namespace {

constexpr int kHostFull = 13;      // SQLITE_FULL
constexpr int kHostAborted = 516;  // SQLITE_ABORT_ROLLBACK
constexpr RowId kLargestRowid = std::numeric_limits<RowId>::max();

}  // namespace

void Collection::Impl::prepare_write() {
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
std::optional<RowId> Collection::Impl::conflicting_key(const NewRow& row,
                                                       std::optional<RowId> self) {
  if (options.layout.text_key < 0) return std::nullopt;
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
bool Collection::Impl::clear_conflicts(const NewRow& row, std::optional<RowId> self,
                                       OnConflict conflict) {
  if (row.rowid && row.rowid != self) {
    const RowId bound = std::max(transaction.base()->rowid_bound(), pending().rowid_bound());
    if (*row.rowid <= bound && locate(*row.rowid) &&
        !clear_conflict(*row.rowid, options.rowid_name, conflict)) {
      return false;
    }
  }
  const std::optional<RowId> other = conflicting_key(row, self);
  if (!other) return true;
  const auto key = static_cast<std::size_t>(options.layout.text_key);
  return clear_conflict(*other, options.plain_names[key], conflict);
}

void Collection::Impl::append(RowId rowid, const NewRow& row) {
  pending().append({rowid, row.vectors, row.plains, row.aux});
  drop_view();
  if (largest && rowid > *largest) largest = rowid;
}

template <typename Body>
void Collection::Impl::write_or_undo(const Body& body) {
  change_or_undo(body);
  flush_when_large();
}

void Collection::Impl::flush_when_large() {
  if (pending().bytes() >= options.flush_bytes) flush_pending(FlushScope::kFullChunks);
}

void Collection::Impl::throw_rolled_back() const {
  throw Error(ErrorKind::kHost, kHostAborted,
              store.table() + ": the transaction was rolled back while it was written");
}

void Collection::Impl::flush_pending(FlushScope scope) {
  const bool lists = scope == FlushScope::kAll && transaction.base()->unlisted;
  look_again_before_writing();
  if (pending().has_changes() || lists) {
    write_tables([&](const WriteContext& context) { return flush(context, pending(), scope); });
  } else if (!pending().empty()) {
    transaction.finish_flush(transaction.freeze(), Pending(options.layout), transaction.base());
    forget_view();
  }
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

// Learns, and says in the host's log that it does and how long it took.
NewModel Collection::Impl::learn_column(std::size_t column, std::uint32_t seconds,
                                        const index::Progress& progress) {
  using Clock = std::chrono::steady_clock;
  const index::Trained& index = *options.vectors[column].made->trained();
  const Snapshot& base = *transaction.base();
  const std::string subject =
      "warp: " + store.schema() + "." + store.table() + "." + options.vectors[column].name + ": ";
  const std::uint64_t rows = sealed_rows(base, column) + base.tail.live;
  const std::string plan = index.plan(rows);
  store.notice(subject + "training on " + std::to_string(rows) + " rows" +
               (plan.empty() ? "" : ", " + plan));
  const Clock::time_point begin = Clock::now();
  const auto took = [&] {
    const std::chrono::duration<double> time = Clock::now() - begin;
    return std::to_string(std::lround(time.count() * 1000)) + " ms";
  };
  try {
    NewModel model{column, learn(base, options, column, index, seconds, cancellation, progress)};
    store.notice(subject + "trained in " + took());
    return model;
  } catch (const std::exception& error) {
    store.notice(subject + "training ended after " + took() + ": " + error.what());
    throw;
  }
}

// Returns what the column's index learns from the current base; nothing when there is too little
// for it.
std::optional<NewModel> Collection::Impl::try_to_learn(std::size_t column, std::uint32_t seconds,
                                                       const index::Progress& progress) {
  try {
    return learn_column(column, seconds, progress);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid && error.kind() != ErrorKind::kNoMemory) throw;
  } catch (const std::bad_alloc&) {
  }
  return std::nullopt;
}

// The same, within the limit of time there is.
std::optional<NewModel> Collection::Impl::learn_in_time(std::size_t column,
                                                        const index::Progress& progress) {
  const std::uint32_t seconds = training_limit();
  TimeLimit limit(cancellation, seconds);
  const Serving limited(cancellation, &limit);
  try {
    return try_to_learn(column, seconds, progress);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted || !limit.passed()) throw;
  }
  remember_late(*transaction.base(), column);
  store.notice("warp: " + store.schema() + "." + store.table() + "." +
               options.vectors[column].name + ": it took longer than training_seconds, " +
               std::to_string(seconds) + "; INSERT INTO " + store.table() + "(" + store.table() +
               ") VALUES('train') has no limit");
  return std::nullopt;
}

// False: some of the coding waits.
bool Collection::Impl::install(const std::vector<NewModel>& models, OnInterrupt on_interrupt,
                               const index::Progress& progress) {
  bool complete = false;
  write_tables([&](const WriteContext& context) {
    CodingResult result = install_models(context, models, on_interrupt, progress);
    complete = result.complete;
    return FlushResult{std::move(result.snapshot), Pending(options.layout)};
  });
  return complete;
}

// Gives codes to the segments that a flush left without, or an interrupt. False: some of it waits.
bool Collection::Impl::code_segments(OnInterrupt on_interrupt, const index::Progress& progress) {
  if (all_coded(*transaction.base(), options)) return true;
  bool complete = false;
  write_tables([&](const WriteContext& context) {
    CodingResult result = code_missing(context, on_interrupt, progress);
    complete = result.complete;
    return FlushResult{std::move(result.snapshot), Pending(options.layout)};
  });
  return complete;
}

// Says whether vectors of the column went for codes: it cannot learn again.
bool Collection::Impl::gone(std::size_t column) const {
  const SegmentList::Parts& segments = transaction.base()->segments();
  return std::any_of(segments.begin(), segments.end(),
                     [&](const auto& segment) { return segment->decodes(column); });
}

// Says whether the rows that are sealed ask for a model, or for another one.
bool Collection::Impl::wants_model(std::size_t column) {
  const index::Trained* index = options.vectors[column].made->trained();
  const std::vector<Stamp>& models = transaction.base()->state.models;
  if (index == nullptr || gone(column)) return false;
  const std::uint64_t rows = sealed_rows(*transaction.base(), column);
  if (rows / 2 < trained_in_vain[column]) return false;
  if (column >= models.size() || models[column].is_null()) {
    return index->wants_training(rows, nullptr);
  }
  try {
    return index->wants_training(rows, load_model(store, column, models[column], *index).get());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    return false;  // searches say so
  }
}

// Runs at the end of a transaction that made new segments: tail rows are not coded. Rows do not
// need it: what an interrupt ends goes on at the end of the next transaction that writes.
void Collection::Impl::train_when_worthwhile(const index::Progress& progress) {
  const std::int64_t next = transaction.base()->state.next_segment;
  if (considered_segment == next || !values_are_there(options)) return;
  trained_in_vain.resize(options.vectors.size());
  std::vector<NewModel> models;
  try {
    for (std::size_t i = 0; i < options.vectors.size(); ++i) {
      if (training_limit() == 0 || !wants_model(i) || was_late(*transaction.base(), i)) continue;
      auto model = learn_in_time(i, progress);
      trained_in_vain[i] = model ? 0 : sealed_rows(*transaction.base(), i);
      if (model) models.push_back(std::move(*model));
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInterrupted) return;
    throw;
  }
  bool complete = models.empty() || install(models, OnInterrupt::kWait, progress);
  complete = complete && code_segments(OnInterrupt::kWait, progress);
  if (complete) considered_segment = next;
}

// Trains again after a rewrite that left segments without codes. Damage of an old model does not
// matter.
void Collection::Impl::train_again(const index::Progress& progress) {
  std::vector<NewModel> models;
  const storage::State& state = transaction.base()->state;
  for (std::size_t i = 0; i < options.vectors.size(); ++i) {
    const index::Trained* index = options.vectors[i].made->trained();
    if (index == nullptr) continue;
    const bool known = i < state.models.size() && !state.models[i].is_null();
    if (!known && !index->wants_training(sealed_rows(*transaction.base(), i), nullptr)) continue;
    if (auto model = try_to_learn(i, 0, progress)) models.push_back(std::move(*model));
  }
  if (!models.empty()) install(models, OnInterrupt::kFail, progress);
  code_segments(OnInterrupt::kFail, progress);
}

// Trains what the end of a transaction would, or had no time for.
void Collection::Impl::train_what_waits(const index::Progress& progress) {
  if (!values_are_there(options)) return;
  trained_in_vain.assign(options.vectors.size(), 0);
  std::vector<NewModel> models;
  for (std::size_t i = 0; i < options.vectors.size(); ++i) {
    if (!wants_model(i)) continue;
    if (auto model = try_to_learn(i, 0, progress)) models.push_back(std::move(*model));
  }
  if (!models.empty()) install(models, OnInterrupt::kFail, progress);
  code_segments(OnInterrupt::kFail, progress);
}

void Collection::Impl::roll_back() noexcept {
  rollback_waits = false;
  base_current = false;
  moment = {};
  drop_view();  // first: what holds no chunk lets it be used again
  overlays.clear();
  transaction.rollback();
  undo_views();
  store.undo_renames(0);
  created = {};
  forget_view();
  forget_thoughts();
}

// Forgets what was found out about segments that exist no longer.
void Collection::Impl::forget_thoughts() noexcept {
  considered_segment = 0;
  trained_in_vain.clear();
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

void Collection::begin() {
  if (!impl_->transaction.active()) {
    impl_->store.settle_name();
    impl_->store.keep_name();
    impl_->base_current = false;
  }
  impl_->transaction.begin();
}

void Collection::write() {
  impl_->transaction.check_readable();
  if (!impl_->unwritten()) return;
  // SQLite does not tell of a savepoint that is rolled back from before the table was made.
  if (!impl_->created.is_null() && !impl_->present()) return impl_->roll_back();
  impl_->prepare_write();
  impl_->flush_pending(FlushScope::kAll);
}

void Collection::sync(compute::Cancellation* cancellation, const index::Progress& progress) {
  write();
  if (!impl_->base_current || impl_->transaction.base() == nullptr) return;  // nothing was written
  const Serving serving(impl_->cancellation, cancellation);
  impl_->train_when_worthwhile(progress);
}

void Collection::commit() noexcept {
  impl_->transaction.commit();
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
  impl_->undo_views();
  impl_->forget_thoughts();
}

void Collection::optimize(compute::Cancellation* cancellation, const index::Progress& progress) {
  const Serving serving(impl_->cancellation, cancellation);
  if (impl_->options.content != nullptr) {
    const std::shared_ptr<const View> now = view();
    note_all_vanished(*now, Selection(*now, {}));
  }
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

void Collection::train(compute::Cancellation* cancellation, const index::Progress& progress) {
  const Serving serving(impl_->cancellation, cancellation);
  impl_->prepare_write();
  impl_->look_again();
  impl_->flush_pending(FlushScope::kAll);
  std::vector<NewModel> models;
  std::optional<Error> failure;  // of the first column that cannot learn
  bool gone = false;
  for (std::size_t i = 0; i < impl_->options.vectors.size(); ++i) {
    const index::Trained* index = impl_->options.vectors[i].made->trained();
    if (index == nullptr) continue;
    if (impl_->gone(i)) {
      gone = true;
      continue;
    }
    try {
      models.push_back(impl_->learn_column(i, 0, progress));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalid) throw;
      if (failure) continue;
      failure.emplace(ErrorKind::kInvalid,
                      table() + "." + impl_->options.vectors[i].name + ": " + error.what());
    }
  }
  if (models.empty() && failure) throw *failure;
  if (models.empty() && !gone) {
    throw Error(ErrorKind::kInvalid, table() + ": no column has an index that is trained");
  }
  impl_->rewrite_segments(RewriteScope::kTail);
  if (!models.empty()) impl_->install(models, OnInterrupt::kFail, progress);
  impl_->code_segments(OnInterrupt::kFail, progress);
}

}  // namespace warplite::engine

// A collection whose rows are in a content table: how it follows them.
#include <string>
#include <utility>

#include "engine/collection_impl.h"
#include "engine/filter/content_hits.h"
#include "storage/codec/row_hash.h"

namespace warplite::engine {
namespace {

constexpr std::uint64_t kRowsBetweenPolls = 256;

void poll(compute::Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

NewRow new_row(const ContentSource::Row& row) {
  return {row.rowid, row.vectors, row.plains, nullptr};
}

// The tables without a row. Views in use keep theirs.
std::shared_ptr<const Snapshot> clear(const WriteContext& context) {
  std::vector<std::int64_t> all;
  for (const auto& segment : context.base->segments()) all.push_back(segment->info().id);
  keep_for(context.readers, all, Part::Loss::kEverything);
  auto next = std::make_shared<Snapshot>();
  next->state = context.base->state;
  for (const auto& segment : context.base->segments()) {
    context.store.drop_segment(segment->info());
  }
  context.store.clear_tail(next->state);
  next->state.directory = next->list->directory();
  context.store.write_state(next->state);
  return next;
}

}  // namespace

// Rows that could not be read may be there again, and others gone, if the content table changed.
void Collection::Impl::look_again() {
  if (options.content == nullptr) return;
  options.content->check();
  const ContentSource::Moment now = options.content->moment();
  if (now.same(std::exchange(moment, now)) || transaction.base() == nullptr) return;
  bool changed = false;
  for (const auto& segment : transaction.base()->segments()) {
    const Pending::SegmentErasures* erased = pending().segment(segment->info().id);
    changed |= segment->look_again(erased == nullptr ? nullptr : &erased->rows);
  }
  if (auto next = engine::look_again(store, options, *transaction.base())) {
    transaction.set_base(std::move(next));
    overlays.clear();
    changed = true;
  }
  if (changed) forget_view();
  if (view != nullptr) view->vanished().clear();
}

// When the content table reports its changes, rows that vanished without a report are erased with
// the next write: searches that meet them again and again would look for every row.
void Collection::Impl::erase_gone() {
  if (options.content != nullptr) erase_gone(options.content->take_gone());
}

void Collection::Impl::erase_gone(const std::vector<RowId>& rowids) {
  for (const RowId rowid : rowids) {
    if (options.content->exists(rowid)) continue;
    if (const auto row = locate(rowid)) erase(rowid, *row);
  }
}

// Every row is looked for.
void Collection::Impl::erase_all_gone() {
  if (options.content == nullptr || !options.content->tells()) return;
  prepare_write();
  look_again();
  if (view == nullptr) view = make_view();
  std::vector<RowId> gone;
  for (const Location& at : rows_not_there(*view, Selection(*view, {}))) {
    gone.push_back(view->rowid(at));
  }
  erase_gone(gone);
}

// Rows that are lost are left behind by what is written. The content table itself may have been
// dropped in this transaction, which is to end all the same. Other failures may have ended it.
void Collection::Impl::look_again_before_writing() {
  try {
    look_again();
    erase_gone();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) throw;
  }
}

std::uint64_t Collection::Impl::hash(const LiveRow& row) {
  if (!row.pending) return row.committed.part->hash(row.committed.position);
  const std::uint64_t capacity = options.layout.segment_rows;
  const Pending::Slot& slot = pending().slots()[row.number / capacity];
  return storage::row_hash(options.layout, {slot.chunk.get(),
                                            static_cast<std::uint32_t>(row.number % capacity)});
}

// A row whose indexed values are as they were stays where it is: applications change other
// columns often.
void Collection::follow(RowId rowid, compute::Cancellation* cancellation) {
  const Serving serving(impl_->cancellation, cancellation);
  impl_->prepare_write();
  impl_->options.content->check();
  const bool there = impl_->options.content->read_checked(rowid, [&](const ContentSource::Row& row) {
    const auto known = impl_->locate(rowid);
    if (known && impl_->hash(*known) ==
                     storage::row_hash(impl_->options.layout, row.vectors, row.plains)) {
      return;
    }
    impl_->change_or_undo([&] {
      if (known) impl_->erase(rowid, *known);
      impl_->append(rowid, new_row(row));
    });
  });
  if (there) {
    impl_->flush_when_large();
  } else {
    erase(rowid, cancellation);
  }
}

void Collection::fill(compute::Cancellation* cancellation, const index::Progress& progress) {
  const Serving serving(impl_->cancellation, cancellation);
  impl_->prepare_write();
  impl_->fill(progress);
}

void Collection::Impl::fill(const index::Progress& progress) {
  std::uint64_t rows = 0;
  const double total = progress ? static_cast<double>(options.content->count()) : 0;
  options.content->scan_checked([&](const ContentSource::Row& row) {
    change_or_undo([&] { append(row.rowid, new_row(row)); });
    flush_when_large();
    if (++rows % kRowsBetweenPolls != 0) return;
    poll(cancellation);
    if (progress && total > 0) {
      progress("reading row " + std::to_string(rows), static_cast<double>(rows) / total);
    }
  });
}

void Collection::Impl::refill(const index::Progress& progress) {
  options.content->check();
  prepare_write();
  flush_pending(FlushScope::kAll);
  try {
    write_tables([](const WriteContext& context) {
      return FlushResult{clear(context), Pending(context.options.layout)};
    });
    fill(progress);
    flush_pending(FlushScope::kAll);
    train_again(progress);
  } catch (...) {
    // An index that is filled in part finds in part. Where SQLite has rolled back, all is as it
    // was.
    if (transaction.active()) transaction.mark_torn();
    throw;
  }
}

}  // namespace warplite::engine

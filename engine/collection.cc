#include "engine/collection.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "engine/collection_impl.h"
#include "engine/content_check.h"
#include "engine/integrity.h"
#include "engine/residency/residency.h"
#include "engine/table/models.h"

namespace warplite::engine {
namespace {

constexpr int kHostLocked = 6;  // SQLITE_LOCKED

// So many rows are compared in some 10 microseconds, a fifth of what a search through lists of 50,000 rows
// takes.
std::uint32_t trained_tail_rows(const TableOptions& options) {
  if (keeps_small_segments(options.layout)) return options.tail_rows;
  constexpr std::size_t kBytes = std::size_t{192} << 10, kLeast = 64, kMost = 1024;
  const std::size_t fit = kBytes / std::max<std::size_t>(options.layout.row_bytes(), 1);
  const auto rows = static_cast<std::uint32_t>(std::clamp(fit, kLeast, kMost));
  return std::min(options.trained_tail_rows != 0 ? options.trained_tail_rows : rows, options.tail_rows);
}

TableOptions checked(TableOptions options) {
  Layout& layout = options.layout;
  if (layout.segment_rows == 0) layout.segment_rows = default_segment_rows(layout);
  // Segments wait until they are full, or rows that begin one are written twice. Large ones of codes are fewer
  // then, too, with more rows for a device at once.
  constexpr std::size_t kBesideVectors = 64;  // bytes of a row
  constexpr std::size_t kMostOfWideRows = std::size_t{64} << 20;
  const std::size_t full = layout.segment_rows * (layout.row_bytes() + kBesideVectors);
  if (layout.codes_only || full <= kMostOfWideRows) {
    options.flush_bytes = std::max(options.flush_bytes, full);
  }
  options.tail_rows = std::clamp<std::uint32_t>(options.tail_rows, 1, layout.segment_rows);
  options.trained_tail_rows = trained_tail_rows(options);
  for (std::size_t i = 0; i < options.vectors.size(); ++i) {
    const Layout::Vector& shape = layout.vectors[i];
    TableOptions::VectorColumn& column = options.vectors[i];
    column.made = index::make_index(
        column.index, {shape.type, shape.dim, column.distance, layout.codes_only});
  }
  return options;
}

// The keys of `part` that are none of `but`.
void add_others(std::vector<CacheKey>& keys, const std::vector<CacheKey>& part,
                const std::vector<CacheKey>& but) {
  std::copy_if(part.begin(), part.end(), std::back_inserter(keys), [&](const CacheKey& key) {
    return std::find(but.begin(), but.end(), key) == but.end();
  });
}

}  // namespace

Collection::Impl::Impl(sqlite3* db, const std::string& schema, const std::string& table,
                       TableOptions given)
    : options(checked(std::move(given))),
      store(db, schema, table, options.layout),
      transaction(options.layout) {}

// Within a transaction, returns whether the tables that exist under this name are those that it has
// read or written last, and not another's.
bool Collection::Impl::present() {
  if (!store.present()) return false;
  const Snapshot* const base = transaction.base().get();
  const Stamp& known = base == nullptr ? created : base->state.generation;
  return !known.is_null() && store.read_generation() == known;
}

// Makes base the snapshot of the host's transaction.
void Collection::Impl::refresh() {
  if (busy) {  // a progress handler asks, while the tables are written
    throw Error(ErrorKind::kHost, kHostLocked,
                store.schema() + "." + store.table() + " is being written by this connection");
  }
  transaction.check_readable();
  if (!transaction.active()) store.settle_name();
  const std::shared_ptr<const Snapshot> known = transaction.base();
  std::shared_ptr<const Snapshot> now;
  try {
    now = read_snapshot(store, options, known);
  } catch (...) {
    if (!unwritten()) transaction.set_base(nullptr);
    forget_view();
    throw;
  }
  if (now == known) return settle();
  if (known != nullptr && unwritten()) {
    throw Error(ErrorKind::kInvalid, store.schema() + "." + store.table() +
                                         " was changed by somebody else within a transaction "
                                         "that has unwritten rows; ROLLBACK first");
  }
  transaction.set_base(std::move(now));
  forget_view();
  settle();
}

// Tells the cache which blocks the committed table has, and which it has no more. What a transaction
// writes is nobody's until it commits: if it does not, it goes from memory.
void Collection::Impl::settle() {
  const std::shared_ptr<const Snapshot>& base = transaction.base();
  if (transaction.active() || base == nullptr) return;
  if (settled_generation == base->state.generation) return;
  settle_models();
  settle_segments();
  settled_generation = base->state.generation;
}

// The table has nothing any more.
void Collection::Impl::unsettle() {
  std::vector<CacheKey> gone;
  for (std::size_t i = 0; settled != nullptr && i < settled->parts().size(); ++i) {
    add_others(gone, settled->parts()[i]->blocks(), {});
  }
  if (settled_models != nullptr) add_others(gone, settled_models->keys(), {});
  Residency::instance().settle({}, gone);
  settled_generation = {};
  settled = nullptr;
  settled_models = nullptr;
}

void Collection::Impl::settle_segments() {
  const std::shared_ptr<const Snapshot>& base = transaction.base();
  if (settled == base->list) return;
  static const SegmentList::Parts kNone;
  const SegmentList::Parts& old = settled == nullptr ? kNone : settled->parts();
  std::vector<CacheKey> there, gone;
  auto at = old.begin();
  const auto lose_before = [&](std::int64_t id) {
    for (; at != old.end() && (*at)->info().id < id; ++at) add_others(gone, (*at)->blocks(), {});
  };
  for (const auto& part : base->segments()) {
    lose_before(part->info().id);
    const bool known = at != old.end() && (*at)->info().id == part->info().id;
    if (!known || *at != part) add_others(there, part->blocks(), {});
    if (known) add_others(gone, (*at++)->blocks(), part->blocks());
  }
  lose_before(std::numeric_limits<std::int64_t>::max());
  // Else nobody finds them again once this connection is closed.
  if (!store.shares_keys()) there.clear();
  Residency::instance().settle(there, gone);
  settled = base->list;
}

void Collection::Impl::settle_models() {
  const std::vector<Stamp>& stamps = transaction.base()->state.models;
  std::vector<CacheKey> now;
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    if (!stamps[i].is_null()) now.push_back(model_key(store, i, stamps[i], *options.vectors[i].made));
  }
  if (settled_models != nullptr && settled_models->keys() == now) return;
  auto next = std::make_unique<HeldBlocks>();
  next->hold(now);
  std::vector<CacheKey> gone;
  if (settled_models != nullptr) add_others(gone, settled_models->keys(), now);
  if (!store.shares_keys()) now.clear();
  Residency::instance().settle(now, gone);
  settled_models = std::move(next);
}

std::shared_ptr<const Part> Collection::Impl::overlay(std::int64_t source, std::uint64_t version,
                                                      const std::shared_ptr<const Part>& base) {
  Overlay& known = overlays[source];
  if (known.part != nullptr && known.version == version) return known.part;
  if (source == Pending::kTail) return overlay_tail(known, version, base);
  Bitmap alive = copy_alive(*base);
  const Bitmap& erased = pending().segment(source)->rows;
  const std::size_t common = std::min(alive.word_count(), erased.word_count());
  for (std::size_t i = 0; i < common; ++i) alive.words()[i] &= ~erased.words()[i];
  known = {version, std::make_shared<OverlayPart>(base, std::move(alive))};
  return known.part;
}

// A statement that changes many rows of the tail has a view after each: the last one knows all but what was
// erased since.
std::shared_ptr<const Part> Collection::Impl::overlay_tail(Overlay& known, std::uint64_t version,
                                                           const std::shared_ptr<const Part>& base) {
  const Tail& tail = transaction.base()->tail;
  const std::vector<Pending::Erasure>& log = pending().log();
  const bool grew = known.part != nullptr && known.restart == pending().tail_restart();
  Bitmap alive = copy_alive(grew ? *known.part : *base);
  for (std::size_t i = grew ? known.erasures : 0; i < log.size(); ++i) {
    if (log[i].source == Pending::kTail) alive.reset(tail.row_of(log[i].row));
  }
  known = {version, std::make_shared<OverlayPart>(base, std::move(alive)), pending().tail_restart(),
           log.size()};
  return known.part;
}

std::shared_ptr<const View> Collection::Impl::make_view() {
  const Snapshot& base = *transaction.base();
  std::vector<std::shared_ptr<const Part>> parts;
  parts.reserve(base.segments().size() + 1 + pending().slots().size());
  for (const auto& segment : base.segments()) {
    const auto* erased = pending().segment(segment->info().id);
    if (erased == nullptr) {
      parts.push_back(segment);
    } else {
      parts.push_back(overlay(segment->info().id, erased->version, segment));
    }
  }
  if (base.tail.part != nullptr) {
    parts.push_back(pending().tail().empty()
                        ? std::static_pointer_cast<const Part>(base.tail.part)
                        : overlay(Pending::kTail, pending().tail_version(), base.tail.part));
  }
  for (const Pending::Slot& slot : pending().slots()) {
    if (slot.used == 0) continue;
    std::shared_ptr<Bitmap> alive;
    if (slot.dead_rows != 0) {
      alive = std::make_shared<Bitmap>(slot.used, true);
      for (std::size_t i = 0; i < alive->word_count(); ++i) {
        alive->words()[i] &= ~slot.dead.words()[i];
      }
    }
    parts.push_back(std::make_shared<ChunkPart>(
        slot.chunk, ChunkPart::Shape{slot.used, slot.min_rowid, slot.max_rowid, true, {}}, alive));
  }
  // Of a content table rows may vanish, segment by segment, with nothing written here.
  SharedSegments shared;
  if (pending().segments().empty() && !options.layout.content) {
    shared = {base.segments().size(), base.list->derived()};
  }
  return std::make_shared<View>(options.layout, store, std::move(parts), base.state.models,
                                options.content.get(), std::move(shared));
}

// Notes that the current view is handed out.
void Collection::Impl::remember_view() {
  if (!held.empty() && held.back().view.lock() == view) return;
  std::erase_if(held, [](const HeldView& known) { return known.view.expired(); });
  held.push_back({view, transaction.flushes()});
}

// After a rollback, of everything or to a savepoint, tells the views in use that show what was
// flushed since.
void Collection::Impl::undo_views() noexcept {
  for (const HeldView& known : held) {
    const auto view_in_use = known.view.lock();
    if (view_in_use != nullptr && known.flushes > transaction.flushes()) view_in_use->undo();
  }
}

std::vector<std::shared_ptr<const View>> Collection::Impl::readers() const {
  std::vector<std::shared_ptr<const View>> views;
  for (const auto& known : held) {
    if (auto view_in_use = known.view.lock()) views.push_back(std::move(view_in_use));
  }
  return views;
}

std::optional<Collection::Impl::LiveRow> Collection::Impl::locate(RowId rowid) {
  if (const auto number = pending().find(rowid)) return LiveRow{true, *number, {}};
  const std::optional<CommittedRow> row = transaction.base()->find(rowid);
  if (!row || pending().erased(row->source, row->row)) return std::nullopt;
  return LiveRow{false, 0, *row};
}

std::optional<RowId> Collection::Impl::find_key(std::string_view key) {
  if (const auto number = pending().find_key(key)) return pending().rowid(*number);
  const std::optional<RowId> rowid = store.find_key(key);
  if (!rowid) return std::nullopt;
  // The row may have been deleted, or replaced by a pending one with another key.
  const std::optional<CommittedRow> row = transaction.base()->find(*rowid);
  if (!row || pending().erased(row->source, row->row)) return std::nullopt;
  // The table of keys has no checksum: the row says whose key it is.
  const auto keys = row->part->plain(static_cast<std::size_t>(options.layout.text_key));
  if (keys == nullptr || keys->is_null(row->position) || keys->text(row->position) != key) {
    throw Error(ErrorKind::kCorrupt, store.schema() + "." + store.table() + ": row " +
                                         std::to_string(*rowid) +
                                         " has another key than the table of keys says");
  }
  return rowid;
}

// --- the interface -----------------------------------------------------------

Collection::Collection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Collection::~Collection() = default;

std::shared_ptr<Collection> Collection::create(sqlite3* db, const std::string& schema,
                                               const std::string& table, TableOptions options) {
  auto impl = std::make_unique<Impl>(db, schema, table, std::move(options));
  impl->store.create_tables();
  impl->created = impl->store.read_generation();
  return std::shared_ptr<Collection>(new Collection(std::move(impl)));
}

std::shared_ptr<Collection> Collection::open(sqlite3* db, const std::string& schema,
                                             const std::string& table, TableOptions options) {
  auto impl = std::make_unique<Impl>(db, schema, table, std::move(options));
  return std::shared_ptr<Collection>(new Collection(std::move(impl)));
}

const TableOptions& Collection::options() const {
  return impl_->options;
}
const std::string& Collection::schema() const {
  return impl_->store.schema();
}
const std::string& Collection::table() const {
  return impl_->store.table();
}

const index::Index& Collection::index(std::size_t vector_column) const {
  return *impl_->options.vectors[vector_column].made;
}

void Collection::check_drop() const {
  if (!impl_->transaction.savepoints_hold_rows()) return;
  throw Error(ErrorKind::kHost, kHostLocked,
              schema() + "." + table() + " cannot be dropped: an open savepoint needs rows of it "
                                         "that were written before; RELEASE or COMMIT first");
}

// What is in memory goes last: where SQLite refuses to drop a table, since a statement of the
// connection still reads, all is as before, rows that were written and not committed included.
void Collection::drop() {
  impl_->store.drop_tables();
  impl_->store.keep_name();
  impl_->roll_back();
  impl_->transaction.set_base(nullptr);  // it holds what is in memory of the table
  impl_->unsettle();
  Residency::instance().forget_table(schema() + "." + table());
}

void Collection::rename(const std::string& new_table) {
  impl_->transaction.check_writable();
  sync();
  impl_->store.rename_tables(new_table);
}

std::shared_ptr<const View> Collection::view() {
  impl_->refresh();
  // Whoever reads may load no more.
  if (!impl_->transaction.active()) impl_->transaction.drop_spares();
  impl_->look_again();
  if (impl_->view == nullptr) impl_->view = impl_->make_view();
  impl_->remember_view();
  return impl_->view;
}

std::optional<RowId> Collection::find_key(std::string_view key) {
  impl_->refresh();
  return impl_->find_key(key);
}

std::vector<std::string> Collection::integrity_check(compute::Cancellation* cancellation,
                                                     AgainstContent against) {
  constexpr std::size_t kMostFaults = 100;
  const Serving serving(impl_->cancellation, cancellation);
  impl_->list_segments();
  std::vector<std::string> faults = impl_->store.check(kMostFaults);
  try {
    const std::shared_ptr<const View> current = view();
    check_view(*current, *this, kMostFaults, cancellation, faults);
    if (against != AgainstContent::kNothing && current->content() != nullptr) {
      check_content(*current, *this, against == AgainstContent::kAll, kMostFaults, cancellation,
                    faults);
    }
  } catch (const Error& error) {
    // Rows or columns that a content table lacks are a fault too.
    const bool is_fault = error.kind() == ErrorKind::kCorrupt ||
                          (error.kind() == ErrorKind::kInvalid && impl_->options.content != nullptr);
    if (!is_fault) throw;
    faults.push_back(error.what());
  }
  return faults;
}

}  // namespace warplite::engine

#include "engine/table/snapshot.h"

#include <algorithm>

#include "engine/table/rows.h"
#include "storage/codec/row_hash.h"

namespace warplite::engine {
namespace {

constexpr int kHostBusy = 5;  // SQLITE_BUSY

bool same_blocks(const storage::SegmentInfo& a, const storage::SegmentInfo& b) {
  return a.id == b.id && a.rows == b.rows && a.live_rows == b.live_rows &&
         a.min_rowid == b.min_rowid && a.max_rowid == b.max_rowid && a.rowids == b.rowids &&
         a.alive == b.alive && a.vectors == b.vectors && a.plains == b.plains &&
         a.codes == b.codes;
}

// Most commits change the tail alone: where the state record describes the segments that are known,
// they are not read again, so that a search beside a writer takes no longer the more of them there
// are.
std::shared_ptr<const SegmentList> read_segments(storage::Store& store, const TableOptions& options,
                                                 const Snapshot* known, const storage::State& state) {
  if (known != nullptr && known->list->directory() == state.directory) return known->list;
  static const SegmentList::Parts kNone;
  const SegmentList::Parts& old = known != nullptr ? known->segments() : kNone;
  SegmentList::Parts parts;
  std::size_t at = 0;
  bool same = known != nullptr;
  for (storage::SegmentInfo& info : store.read_segments()) {
    while (at < old.size() && old[at]->info().id < info.id) ++at;
    if (at < old.size() && same_blocks(old[at]->info(), info)) {
      parts.push_back(old[at]);
    } else {
      parts.push_back(std::make_shared<SegmentPart>(store, options, std::move(info)));
      same = false;
    }
  }
  if (same && parts.size() == old.size()) return known->list;
  return std::make_shared<SegmentList>(std::move(parts));
}

// True when the rows of `tail` are still the first ones of the table's tail.
bool still_there(storage::Store& store, const Snapshot* known, const storage::State& now) {
  if (known == nullptr || known->tail.live == 0) return false;
  if (known->state.tail_epoch != now.tail_epoch || known->tail.live > now.tail_rows) return false;
  return store.tail_flush(known->tail.last_sequence()) == known->state.last_flush;
}

// Rows whose values are not there any more are NULL, and lost.
storage::TailRead read_content_tail(storage::Store& store, const TableOptions& options,
                                    std::int64_t after, TailRows& out) {
  const Layout& layout = options.layout;
  std::vector<storage::ContentTailRow> rows;
  const storage::TailRead read = store.read_content_tail(after, rows);
  const std::vector<Cell> nulls(std::max(layout.vectors.size(), layout.plains.size()));
  for (const storage::ContentTailRow& row : rows) {
    if (out.chunk.full()) break;  // more than the state record counts, which is noticed
    const std::uint32_t at = out.chunk.size();
    options.content->read({&row.rowid, 1}, [&](const ContentSource::Row& found) {
      if (storage::row_hash(layout, found.vectors, found.plains) != row.hash) return;
      out.chunk.append({row.rowid, found.vectors, found.plains, nullptr});
    });
    // A row that fails here leaves nothing behind that would affect the next row.
    if (out.chunk.size() == at) {
      out.chunk.append({row.rowid, nulls.data(), nulls.data(), nullptr});
      out.content.lost.push_back(at);
    }
    out.content.hashes.push_back(row.hash);
    out.sequences.push_back(row.sequence);
  }
  return read;
}

[[noreturn]] void wrong_count(const storage::Store& store, std::int64_t rows,
                              const storage::State& state) {
  throw Error(ErrorKind::kCorrupt, store.schema() + "." + store.table() + ": the tail has " +
                                       std::to_string(rows) + " rows where the state says " +
                                       std::to_string(state.tail_rows));
}

// Rows that are known already are not read again: what the state record says of all of them holds
// for these and the new ones together.
void read_tail(storage::Store& store, const TableOptions& options, const Snapshot* known,
               Snapshot& out) {
  storage::State& state = out.state;
  Tail& tail = out.tail;
  std::int64_t after = 0;
  storage::TailRead read;
  if (still_there(store, known, state)) {
    tail = known->tail;
    after = tail.last_sequence();
    read = {known->state.last_flush, known->state.tail_digest.value_or(0)};
  }
  const auto missing = static_cast<std::uint32_t>(state.tail_rows - tail.live);
  if (missing == 0) {
    if (const auto more = store.count_tail(after); more != 0) {
      wrong_count(store, tail.live + more, state);
    }
  } else {
    make_room(options, tail, missing);
    const storage::TailRead found =
        options.layout.content
            ? read_content_tail(store, options, after, *tail.rows)
            : store.read_tail(after, tail.rows->chunk, tail.rows->sequences);
    read = {found.last_flush, read.digest + found.digest};
    if (tail.alive != nullptr) {
      Bitmap alive = *tail.alive;
      alive.resize(tail.rows->chunk.size(), true);
      tail.alive = std::make_shared<Bitmap>(std::move(alive));
    }
    tail.count = tail.rows->chunk.size();
  }
  tail.seal(options.layout, store.tail_key(state));
  if (tail.live != state.tail_rows ||
      (tail.live != 0 && tail.rows->sequences.size() != tail.rows->chunk.size())) {
    wrong_count(store, tail.live, state);
  }
  store.verify_tail(state, tail.live == 0 ? 0 : tail.last_sequence(), read);
}

}  // namespace

std::int64_t Tail::last_sequence() const {
  std::uint32_t row = count - 1;
  while (alive != nullptr && !alive->test(row)) --row;
  return rows->sequences[row];
}

std::uint32_t Tail::row_of(std::int64_t sequence) const {
  WARP_CHECK(count != 0);
  const auto begin = rows->sequences.begin();
  const auto end = begin + count;
  const auto at = std::lower_bound(begin, end, sequence);
  WARP_CHECK(at != end && *at == sequence);
  return static_cast<std::uint32_t>(at - begin);
}

void Tail::seal(const Layout& layout, const CacheKey& name) {
  part = nullptr;
  live = alive == nullptr ? count : static_cast<std::uint32_t>(alive->count());
  if (live == 0) {
    *this = Tail{};
    return;
  }
  const RowId* rowids = rows->chunk.rowids();
  const auto [low, high] = std::minmax_element(rowids, rowids + count);
  part = std::make_shared<ChunkPart>(
      std::shared_ptr<const Chunk>(rows, &rows->chunk),
      // Where dead rows lie in between, other connections have the rows at other places.
      ChunkPart::Shape{count, *low, *high, false, alive == nullptr ? name : CacheKey{}}, alive,
      layout.content ? std::shared_ptr<const ContentTail>(rows, &rows->content) : nullptr);
}

std::shared_ptr<const Snapshot> look_again(storage::Store& store, const TableOptions& options,
                                           const Snapshot& snapshot) {
  const Tail& tail = snapshot.tail;
  if (tail.part == nullptr) return nullptr;
  bool there = false;
  for (const std::uint32_t row : tail.rows->content.lost) {
    if (there || row >= tail.count) break;
    if (!is_alive(*tail.part, row)) continue;
    const RowId rowid = tail.rows->chunk.rowids()[row];
    bool gone = true;
    options.content->read({&rowid, 1}, [&](const ContentSource::Row& found) {
      gone = false;
      there |= storage::row_hash(options.layout, found.vectors, found.plains) ==
               tail.rows->content.hashes[row];
    });
    if (gone) options.content->note_gone(rowid);
  }
  if (!there) return nullptr;
  auto next = std::make_shared<Snapshot>(snapshot);
  next->tail = Tail{};
  read_tail(store, options, nullptr, *next);
  return next;
}

SegmentList::SegmentList(Parts parts) : parts_(std::move(parts)) {
  rowids_.reserve(parts_.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    rowids_.add(parts_[i]->min_rowid(), parts_[i]->max_rowid(), static_cast<std::uint32_t>(i));
    directory_.add(parts_[i]->digest());
  }
  rowids_.build();
}

RowId Snapshot::rowid_bound() const {
  const RowId bound = list->rowids().bound();
  return tail.part == nullptr ? bound : std::max(bound, tail.part->max_rowid());
}

std::optional<CommittedRow> Snapshot::find(RowId rowid) const {
  if (tail.part != nullptr) {
    const std::optional<std::uint32_t> row = tail.part->find(rowid);
    if (row && is_alive(*tail.part, *row)) {
      return CommittedRow{0, tail.rows->sequences[*row], tail.part.get(), *row};
    }
  }
  std::optional<CommittedRow> found;
  list->rowids().find(rowid, [&](std::uint32_t i) {
    const SegmentPart& segment = *segments()[i];
    const std::optional<std::uint32_t> row = segment.find(rowid);
    if (row && is_alive(segment, *row)) {
      found = CommittedRow{segment.info().id, *row, &segment, *row};
    }
    return found.has_value();
  });
  return found;
}

void make_room(const TableOptions& options, Tail& tail, std::uint32_t more) {
  if (tail.rows != nullptr && tail.rows->chunk.size() == tail.count &&
      tail.rows->sequences.size() == tail.count &&
      tail.rows->chunk.capacity() - tail.count >= more) {
    return;
  }
  const std::uint32_t wanted = std::max(tail.live + more, options.tail_rows);
  auto rows = std::make_shared<TailRows>(options.layout, wanted + wanted / 2);
  RowCopier copier(options.layout, false);
  for (std::uint32_t row = 0; row < tail.count; ++row) {
    if (tail.alive != nullptr && !tail.alive->test(row)) continue;
    copier.copy(tail.rows->chunk, row, rows->chunk);
    rows->sequences.push_back(tail.rows->sequences[row]);
    if (options.layout.content) rows->content.add(tail.rows->content, row);
  }
  tail.count = tail.live;
  tail.alive = nullptr;
  tail.rows = std::move(rows);
}

std::shared_ptr<const Snapshot> read_snapshot(storage::Store& store, const TableOptions& options,
                                              const std::shared_ptr<const Snapshot>& known) {
  constexpr int kAttempts = 8;
  Stamp generation = store.read_generation();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (known != nullptr && known->state.generation == generation) return known;
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->state = store.read_state();
    snapshot->list = read_segments(store, options, known.get(), snapshot->state);
    read_tail(store, options, known.get(), *snapshot);
    generation = store.read_generation();
    if (snapshot->state.generation != generation) continue;
    const SegmentList::Parts& segments = snapshot->segments();
    store.verify_directory(snapshot->state, snapshot->list->directory(),
                           segments.empty() ? 0 : segments.back()->info().id);
    return snapshot;
  }
  throw Error(ErrorKind::kHost, kHostBusy,
              store.schema() + "." + store.table() + " keeps changing while it is read");
}

}  // namespace warplite::engine

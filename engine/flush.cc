#include "engine/flush.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "engine/table/partition.h"
#include "engine/table/rows.h"
#include "engine/training/coding.h"
#include "storage/codec/row_hash.h"

namespace warplite::engine {
namespace {

using storage::RowRef;

struct RowRefAccess {
  RowId rowid(const RowRef& ref) const { return ref.chunk->rowids()[ref.row]; }
  Cell cell(const RowRef& ref, std::size_t column) const {
    return ref.chunk->plain(column).cell(ref.row);
  }
  std::size_t texts(const RowRef& ref) const { return text_bytes(*ref.chunk, ref.row); }
};

// One flush. Everything is read before anything is written, and memory is changed last.
class Flusher {
 public:
  Flusher(const WriteContext& context, const Pending& pending, CodingAhead& ahead,
          FlushScope scope)
      : store_(context.store),
        options_(context.options),
        layout_(context.options.layout),
        base_(*context.base),
        readers_(context.readers),
        cancellation_(context.cancellation),
        pending_(pending),
        ahead_(ahead),
        scope_(scope),
        next_(std::make_shared<Snapshot>(base_)),
        segments_(base_.segments()),
        tail_(base_.tail),
        coder_(context, next_->state) {}

  FlushResult run() {
    plan_deletions();
    collect_rows();
    delete_rows();
    write_side_tables();
    write_rows();
    return finish();
  }

 private:
  struct Touched {
    std::size_t position;  // in base_.segments()
    Bitmap alive;
    std::uint32_t live;
    bool dissolved;
    bool leaves() const { return live == 0 || dissolved; }
  };

  void plan_deletions();
  void dissolve(const SegmentPart& segment, const Bitmap& alive);
  std::size_t slots_left() const;
  void collect_rows();
  void delete_rows();
  void write_side_tables();
  bool fit_into_tail(std::span<const RowRef> rows) const;
  void write_rows();
  void write_whole_chunks();
  void seal(std::span<const RowRef> rows);
  void append_tail(std::span<const RowRef> rows);
  void take_tail_rows();
  void write_directory();
  FlushResult finish();

  storage::Store& store_;
  const TableOptions& options_;
  const Layout& layout_;
  const Snapshot& base_;
  const std::vector<std::shared_ptr<const View>>& readers_;
  compute::Cancellation* const cancellation_;
  const Pending& pending_;
  CodingAhead& ahead_;
  const FlushScope scope_;
  std::shared_ptr<Snapshot> next_;
  SegmentList::Parts segments_;  // become next_->list
  Tail tail_;                    // becomes next_->tail
  Coder coder_;
  std::size_t left_ = 0;         // the last slots that stay pending
  std::vector<Touched> touched_;
  std::vector<RowId> erased_;  // that were committed
  std::vector<std::unique_ptr<Chunk>> dissolved_chunks_;
  std::vector<RowRef> dissolved_;
  std::vector<const Pending::Slot*> whole_;  // slots sealed as they are
  std::vector<RowRef> loose_;                // pending rows that are not in whole_
};

void Flusher::plan_deletions() {
  for (std::size_t i = 0; i < base_.segments().size(); ++i) {
    const SegmentPart& segment = *base_.segments()[i];
    const Pending::SegmentErasures* erased = pending_.segment(segment.info().id);
    if (erased == nullptr) continue;
    Bitmap alive = copy_alive(segment);
    std::uint64_t* words = alive.words();
    const std::size_t common = std::min(alive.word_count(), erased->rows.word_count());
    for (std::size_t word = 0; word < common; ++word) words[word] &= ~erased->rows.words()[word];
    const auto live = static_cast<std::uint32_t>(alive.count());
    touched_.push_back({i, std::move(alive), live, false});
  }
  // Sparse segments give their rows to new ones, a few at a time to bound memory.
  constexpr std::size_t kMostDissolved = 4;
  std::size_t budget = kMostDissolved * layout_.segment_rows;
  for (Touched& touched : touched_) {
    const SegmentPart& segment = *base_.segments()[touched.position];
    if (touched.live == 0 || touched.live >= segment.rows() / 4 || touched.live > budget) continue;
    // Their vectors would be decoded to be coded again; optimize takes their codes as they are.
    if (layout_.codes_only || !values_are_there(options_)) continue;
    budget -= touched.live;
    touched.dissolved = true;
    dissolve(segment, touched.alive);
  }
  std::vector<std::int64_t> changed, leaving;
  for (const Touched& touched : touched_) {
    (touched.leaves() ? leaving : changed).push_back(base_.segments()[touched.position]->info().id);
  }
  keep_for(readers_, changed, Part::Loss::kAliveRows);
  keep_for(readers_, leaving, Part::Loss::kEverything);
  for (const Pending::Erasure& erasure : pending_.log()) {
    if (erasure.source != Pending::kPending) erased_.push_back(erasure.rowid);
  }
  for (const auto& view : readers_) view->keep_aux(erased_);
}

void Flusher::dissolve(const SegmentPart& segment, const Bitmap& alive) {
  const auto live = static_cast<std::uint32_t>(alive.count());
  auto& chunk =
      dissolved_chunks_.emplace_back(std::make_unique<Chunk>(layout_, live, storage::kBlockHeader));
  PartReader reader(layout_, segment);
  for (std::uint32_t row = 0; row < segment.rows(); ++row) {
    if (!alive.test(row) || segment.lost(row)) continue;
    dissolved_.push_back({chunk.get(), chunk->size()});
    reader.copy(row, *chunk);
  }
}

// Within a transaction the last slot stays until it is full, and some before it until they are
// coded; but one is written, or nothing would be won.
std::size_t Flusher::slots_left() const {
  const std::vector<Pending::Slot>& slots = pending_.slots();
  if (scope_ == FlushScope::kAll || !layout_.partitions.empty() || slots.empty()) return 0;
  const std::size_t open = slots.back().used < layout_.segment_rows ? 1 : 0;
  std::size_t left = open;
  while (left < slots.size() && left < open + CodingAhead::kMostLeft &&
         ahead_.has(*slots[slots.size() - 1 - left].chunk)) {
    ++left;
  }
  return std::min(left, slots.size() - 1);
}

void Flusher::collect_rows() {
  const std::vector<Pending::Slot>& slots = pending_.slots();
  left_ = slots_left();
  for (std::size_t i = 0; i < slots.size() - left_; ++i) {
    const Pending::Slot& slot = slots[i];
    if (layout_.partitions.empty() && slot.is_whole()) {
      whole_.push_back(&slot);
      continue;
    }
    for (std::uint32_t row = 0; row < slot.used; ++row) {
      if (slot.alive(row)) loose_.push_back({slot.chunk.get(), row});
    }
  }
}

void Flusher::delete_rows() {
  for (const Touched& touched : touched_) {
    storage::SegmentInfo info = base_.segments()[touched.position]->info();
    std::shared_ptr<SegmentPart> part;
    if (touched.leaves()) {
      store_.drop_segment(info);
    } else {
      store_.write_alive(info, touched.alive);
      part = std::make_shared<SegmentPart>(store_, options_, std::move(info));
      part->adopt_alive(std::make_shared<Bitmap>(touched.alive));
    }
    segments_[touched.position] = std::move(part);
  }
  std::erase(segments_, nullptr);

  if (pending_.tail().empty()) return;
  std::vector<std::int64_t> sequences(pending_.tail().begin(), pending_.tail().end());
  std::sort(sequences.begin(), sequences.end());
  Bitmap alive = copy_alive(*tail_.part);
  for (std::int64_t sequence : sequences) alive.reset(tail_.row_of(sequence));
  tail_.alive = std::make_shared<Bitmap>(std::move(alive));
  tail_.live -= static_cast<std::uint32_t>(sequences.size());
  if (tail_.live == 0) {
    store_.clear_tail(next_->state);
    tail_ = Tail{};
  } else {
    store_.erase_tail(next_->state, sequences);
  }
}

void Flusher::write_side_tables() {
  if (layout_.aux == 0 && layout_.text_key < 0) return;
  std::vector<RowRef> rows = loose_;
  for (const Pending::Slot* slot : whole_) {
    for (std::uint32_t row = 0; row < slot->used; ++row) rows.push_back({slot->chunk.get(), row});
  }
  if (layout_.aux != 0) {
    store_.erase_aux(erased_);
    store_.put_aux(rows);
  }
  if (layout_.text_key >= 0) {
    store_.erase_keys(erased_);
    store_.put_keys(rows);
  }
}

// The chunk of which they are all rows, as it has them; or null.
const Chunk* chunk_of(std::span<const RowRef> rows) {
  const Chunk* const chunk = rows.front().chunk;
  if (rows.size() != chunk->size()) return nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].chunk != chunk || rows[i].row != i) return nullptr;
  }
  return chunk;
}

void Flusher::seal(std::span<const RowRef> rows) {
  std::optional<SegmentCodes> codes;
  if (const Chunk* const whole = chunk_of(rows); whole != nullptr) {
    codes = ahead_.take(*whole, next_->state.models, cancellation_);
  }
  // At the end of a transaction, rows are written before codes are made: an interrupt of the coding
  // must not cost them.
  const bool coded = codes.has_value() || scope_ == FlushScope::kFullChunks;
  storage::SegmentInfo info = store_.seal_blocks(
      next_->state, rows, coded ? storage::Store::Codes::kFollow : storage::Store::Codes::kNone);
  if (codes) {
    coder_.write(info, *codes);
  } else if (coded) {
    coder_.code(info, rows);
  }
  segments_.push_back(std::make_shared<SegmentPart>(store_, options_, std::move(info)));
}

void Flusher::append_tail(std::span<const RowRef> rows) {
  if (rows.empty()) return;
  store_.append_tail(next_->state, new_stamp(), rows);
  make_room(options_, tail_, static_cast<std::uint32_t>(rows.size()));
  RowCopier copier(layout_, false);
  std::int64_t sequence = next_->state.last_sequence - static_cast<std::int64_t>(rows.size());
  for (const RowRef& ref : rows) {
    copier.copy(*ref.chunk, ref.row, tail_.rows->chunk);
    tail_.rows->sequences.push_back(++sequence);
    if (layout_.content) tail_.rows->content.hashes.push_back(storage::row_hash(layout_, ref));
  }
  tail_.count += static_cast<std::uint32_t>(rows.size());
  tail_.live += static_cast<std::uint32_t>(rows.size());
  if (tail_.alive == nullptr) return;
  Bitmap alive = *tail_.alive;
  alive.resize(tail_.count, true);
  tail_.alive = std::make_shared<Bitmap>(std::move(alive));
}

// Adds the tail's rows to those that are to be sealed.
void Flusher::take_tail_rows() {
  for (std::uint32_t row = 0; row < tail_.count; ++row) {
    if (tail_.alive != nullptr && !tail_.alive->test(row)) continue;
    if (!tail_.rows->content.is_lost(row)) loose_.push_back({&tail_.rows->chunk, row});
  }
}

void Flusher::write_whole_chunks() {
  std::vector<RowRef> rows;
  for (const Pending::Slot* slot : whole_) {
    rows.clear();
    for (std::uint32_t row = 0; row < slot->used; ++row) rows.push_back({slot->chunk.get(), row});
    seal(rows);
  }
}

// Else the tail is sealed with them.
bool Flusher::fit_into_tail(std::span<const RowRef> rows) const {
  const bool load = scope_ == FlushScope::kAll && (!whole_.empty() || base_.unlisted);
  if (tail_.live + rows.size() >= least_segment(options_, next_->state, load)) return false;
  std::size_t texts = 0;
  for (std::size_t i = 0; tail_.rows != nullptr && i < layout_.plains.size(); ++i) {
    texts += tail_.rows->chunk.plain(i).text_bytes().size();
  }
  for (const RowRef& row : rows) texts += text_bytes(*row.chunk, row.row);
  return texts <= options_.most_texts;
}

void Flusher::write_rows() {
  write_whole_chunks();
  loose_.insert(loose_.end(), dissolved_.begin(), dissolved_.end());
  if (loose_.empty()) return;
  if (fit_into_tail(loose_)) {
    append_tail(loose_);
    return;
  }
  const Tail old_tail = tail_;  // keeps the rows alive that loose_ names
  take_tail_rows();
  const RowRefAccess access;
  const std::vector<std::size_t> cuts =
      SegmentCutter<RowRef, RowRefAccess>(options_, access).cut(loose_);
  if (old_tail.live > 0) store_.clear_tail(next_->state);
  tail_ = Tail{};
  std::span<const RowRef> rows = loose_;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const bool small = i + 1 == cuts.size() && i > 0 &&
                       cuts[i] < least_segment(options_, next_->state, true);
    if (small) {
      append_tail(rows);
    } else {
      seal(rows.first(cuts[i]));
    }
    rows = rows.subspan(cuts[i]);
  }
}

void Flusher::write_directory() {
  for (const auto& segment : next_->segments()) {
    if (segment->info().id >= next_->first_unlisted) store_.write_entry(segment->info());
  }
  store_.write_state(next_->state);
}

FlushResult Flusher::finish() {
  tail_.seal(layout_, store_.tail_key(next_->state));
  next_->tail = std::move(tail_);
  if (segments_ != base_.segments()) {
    next_->list = std::make_shared<SegmentList>(std::move(segments_));
  }
  next_->state.directory = next_->list->directory();
  Pending rest = pending_.last_slots(left_);
  next_->first_unlisted = base_.unlisted ? base_.first_unlisted : base_.state.next_segment;
  next_->unlisted = scope_ == FlushScope::kFullChunks;
  if (!next_->unlisted) write_directory();
  return {next_, std::move(rest)};
}

}  // namespace

std::size_t least_segment(const TableOptions& options, const storage::State& state, bool load) {
  const std::size_t rows = load ? options.tail_rows / 8 : options.tail_rows;
  return is_trained(options, state) ? std::min<std::size_t>(rows, options.trained_tail_rows) : rows;
}

bool values_are_there(const TableOptions& options) {
  if (options.content == nullptr) return true;
  try {
    options.content->check();
    return true;
  } catch (const Error& error) {
    // After others SQLite may have rolled the transaction back, and then nothing may go on.
    if (error.kind() != ErrorKind::kInvalid) throw;
    return false;
  }
}

FlushResult flush(const WriteContext& context, const Pending& pending, CodingAhead& ahead,
                  FlushScope scope) {
  return Flusher(context, pending, ahead, scope).run();
}

}  // namespace warplite::engine

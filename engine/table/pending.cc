#include "engine/table/pending.h"

#include <algorithm>
#include <limits>
#include <new>

#include "core/error.h"
#include "engine/table/rows.h"
#include "storage/storage.h"

namespace warplite::engine {
namespace {

std::size_t extra_bytes(const Layout& layout, const RowView& row) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < layout.plains.size(); ++i) bytes += row.plains[i].bytes.size();
  for (std::size_t i = 0; i < layout.aux; ++i) bytes += row.aux[i].bytes.size() + sizeof(Value);
  return bytes;
}

}  // namespace

std::size_t Pending::bytes() const {
  return rows_ * row_bytes_ + extra_bytes_ + log_.size() * sizeof(Erasure);
}

void Pending::append(const RowView& row) {
  const std::size_t extra = extra_bytes(*layout_, row);
  Slot& slot = open_slot();
  if (layout_->text_key >= 0) {
    const Cell& key = row.plains[layout_->text_key];
    if (!key.is_null()) keys_[std::string(key.bytes)] = rows_;
  }
  slot.chunk->append(row);
  slot.min_rowid = slot.used == 0 ? row.rowid : std::min(slot.min_rowid, row.rowid);
  slot.max_rowid = slot.used == 0 ? row.rowid : std::max(slot.max_rowid, row.rowid);
  ++slot.used;
  ++rows_;
  extra_bytes_ += extra;
}

// The last slot, with room for a row in a chunk that may be appended to.
Pending::Slot& Pending::open_slot() {
  if (slots_.empty() || slots_.back().used == capacity()) {
    Slot slot;
    if (!spares_.empty()) {
      slot.chunk = std::move(spares_.back());
      spares_.pop_back();
    } else {
      slot.chunk = std::make_shared<Chunk>(*layout_, capacity(), storage::kBlockHeader);
    }
    slots_.push_back(std::move(slot));
    return slots_.back();
  }
  Slot& slot = slots_.back();
  if (slot.chunk->size() == slot.used) return slot;
  if (slot.chunk.use_count() == 1) {
    slot.chunk->truncate(slot.used);
  } else {
    auto copy = std::make_shared<Chunk>(*layout_, capacity(), storage::kBlockHeader);
    RowCopier copier(*layout_);
    for (std::uint32_t row = 0; row < slot.used; ++row) copier.copy(*slot.chunk, row, *copy);
    slot.chunk = std::move(copy);
  }
  return slot;
}

void Pending::erase_committed(const Erasure& erasure) {
  log_.push_back(erasure);
  try {
    apply(erasure);
  } catch (...) {
    log_.pop_back();
    throw;
  }
}

void Pending::erase_pending(std::uint64_t row) {
  erase_committed({kPending, static_cast<std::int64_t>(row), rowid(row)});
}

void Pending::apply(const Erasure& erasure) {
  if (erasure.source == kTail) {
    tail_.insert(erasure.row);
    ++committed_erasures_;
    tail_version_ = new_number();
    return;
  }
  if (erasure.source != kPending) {
    SegmentErasures& segment = segments_[erasure.source];
    const auto row = static_cast<std::size_t>(erasure.row);
    if (segment.rows.size() <= row) segment.rows.resize((row / 512 + 1) * 512);
    segment.rows.set(row);
    ++committed_erasures_;
    ++segment.count;
    segment.version = new_number();
    return;
  }
  Slot& slot = slots_[static_cast<std::uint64_t>(erasure.row) / capacity()];
  if (slot.dead.size() == 0) slot.dead = Bitmap(capacity());
  slot.dead.set(static_cast<std::uint64_t>(erasure.row) % capacity());
  ++slot.dead_rows;
  ++dead_rows_;
}

void Pending::undo(const Erasure& erasure) noexcept {
  if (erasure.source == kTail) {
    tail_.erase(erasure.row);
    --committed_erasures_;
    tail_version_ = tail_restart_ = new_number();
  } else if (erasure.source != kPending) {
    SegmentErasures& segment = segments_.find(erasure.source)->second;
    segment.rows.reset(static_cast<std::size_t>(erasure.row));
    --segment.count;
    --committed_erasures_;
    segment.version = new_number();
  } else {
    Slot& slot = slots_[static_cast<std::uint64_t>(erasure.row) / capacity()];
    slot.dead.reset(static_cast<std::uint64_t>(erasure.row) % capacity());
    --slot.dead_rows;
    --dead_rows_;
    keys_stale_ = true;
  }
}

void Pending::truncate(const Mark& mark) noexcept {
  while (log_.size() > mark.erasures) {
    undo(log_.back());
    log_.pop_back();
  }
  // Fewer: a read ran out of memory, and SQLite rolled the whole transaction back at once.
  if (rows_ <= mark.rows) return;
  const std::size_t slots = static_cast<std::size_t>((mark.rows + capacity() - 1) / capacity());
  while (slots_.size() > slots) slots_.pop_back();
  if (!slots_.empty()) {
    Slot& last = slots_.back();
    last.used = static_cast<std::uint32_t>(mark.rows - (slots - 1) * std::uint64_t{capacity()});
    if (last.chunk.use_count() == 1) last.chunk->truncate(last.used);
  }
  rows_ = mark.rows;
  extra_bytes_ = mark.extra_bytes;
  keys_stale_ = true;
}

std::optional<std::uint64_t> Pending::find(RowId rowid) const {
  for (std::size_t i = slots_.size(); i-- > 0;) {
    const Slot& slot = slots_[i];
    if (rowid < slot.min_rowid || rowid > slot.max_rowid) continue;
    const std::optional<std::uint32_t> row = find_row(*slot.chunk, slot.used, rowid);
    if (!row) continue;
    if (!slot.alive(*row)) return std::nullopt;
    return i * std::uint64_t{capacity()} + *row;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Pending::find_key(std::string_view key) {
  if (keys_stale_) index_keys();
  const auto found = keys_.find(std::string(key));
  if (found == keys_.end() || found->second >= rows_) return std::nullopt;
  const Slot& slot = slots_[found->second / capacity()];
  const auto row = static_cast<std::uint32_t>(found->second % capacity());
  const Cell cell = slot.chunk->plain(static_cast<std::size_t>(layout_->text_key)).cell(row);
  if (!slot.alive(row) || cell.is_null() || cell.bytes != key) return std::nullopt;
  return found->second;
}

void Pending::index_keys() {
  keys_.clear();
  for (std::size_t i = 0; i < slots_.size() && layout_->text_key >= 0; ++i) {
    const Column& keys = slots_[i].chunk->plain(static_cast<std::size_t>(layout_->text_key));
    for (std::uint32_t row = 0; row < slots_[i].used; ++row) {
      if (keys.is_null(row) || !slots_[i].alive(row)) continue;
      keys_[std::string(keys.text(row))] = i * std::uint64_t{capacity()} + row;
    }
  }
  keys_stale_ = false;
}

RowId Pending::rowid(std::uint64_t row) const {
  return slots_[row / capacity()].chunk->rowids()[row % capacity()];
}

RowId Pending::rowid_bound() const {
  RowId bound = std::numeric_limits<RowId>::min();
  for (const Slot& slot : slots_) bound = std::max(bound, slot.max_rowid);
  return bound;
}

bool Pending::erased(std::int64_t source, std::int64_t row) const {
  if (source == kTail) return tail_.contains(row);
  const SegmentErasures* erasures = segment(source);
  const auto at = static_cast<std::size_t>(row);
  return erasures != nullptr && at < erasures->rows.size() && erasures->rows.test(at);
}

const Pending::SegmentErasures* Pending::segment(std::int64_t id) const {
  if (segments_.empty()) return nullptr;
  const auto found = segments_.find(id);
  return found == segments_.end() || found->second.count == 0 ? nullptr : &found->second;
}

std::shared_ptr<Pending::Frozen> Pending::freeze(const Mark& mark) const {
  auto frozen = std::make_shared<Frozen>();
  const std::size_t slots = static_cast<std::size_t>((mark.rows + capacity() - 1) / capacity());
  for (std::size_t i = 0; i < slots; ++i) {
    Slot slot = slots_[i];
    slot.dead = Bitmap();
    slot.dead_rows = 0;
    frozen->slots.push_back(std::move(slot));
  }
  frozen->log.assign(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(mark.erasures));
  return frozen;
}

Pending Pending::restored(const Layout& layout, const Frozen& frozen, const Mark& mark) {
  Pending pending(layout);
  std::uint64_t rows = mark.rows;
  for (const Slot& slot : frozen.slots) {
    if (rows == 0) break;
    Slot& copy = pending.slots_.emplace_back(slot);
    copy.used = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, layout.segment_rows));
    rows -= copy.used;
  }
  pending.rows_ = mark.rows;
  pending.extra_bytes_ = mark.extra_bytes;
  for (std::size_t i = 0; i < mark.erasures; ++i) pending.erase_committed(frozen.log[i]);
  pending.keys_stale_ = true;
  return pending;
}

Pending Pending::last_slots(std::size_t count) const {
  Pending pending(*layout_);
  for (auto slot = slots_.end() - static_cast<std::ptrdiff_t>(count); slot != slots_.end(); ++slot) {
    Slot& copy = pending.slots_.emplace_back(*slot);
    copy.dead = Bitmap();
    copy.dead_rows = 0;
    const std::uint64_t first = pending.rows_;
    pending.rows_ += slot->used;
    for (std::size_t i = 0; i < layout_->plains.size(); ++i) {
      pending.extra_bytes_ += slot->chunk->plain(i).text_bytes().size();
    }
    for (std::uint32_t row = 0; row < slot->used; ++row) {
      if (!slot->alive(row)) pending.erase_pending(first + row);
    }
  }
  pending.keys_stale_ = true;
  return pending;
}

void Pending::become(Pending&& next) noexcept {
  std::vector<std::shared_ptr<Chunk>> spares = std::move(spares_);
  std::vector<Slot> old = std::move(slots_);
  *this = std::move(next);
  spares_ = std::move(spares);
  keep_spares(std::move(old));
}

void Pending::keep_spares(std::vector<Slot>&& slots) noexcept {
  // Room for four chunks of rows that are to be codes, of the largest kind: so many are filled and
  // coded in turn.
  constexpr std::size_t kMostSpareBytes = std::size_t{136} << 20;
  std::size_t bytes = 0;
  for (const auto& spare : spares_) bytes += spare->memory();
  for (Slot& slot : slots) {
    if (spares_.size() == kMostSpares) break;
    if (slot.chunk.use_count() != 1 || bytes + slot.chunk->memory() > kMostSpareBytes) continue;
    bytes += slot.chunk->memory();
    slot.chunk->truncate(0);
    try {
      spares_.push_back(std::move(slot.chunk));
    } catch (const std::bad_alloc&) {
      break;
    }
  }
}

void Pending::drop_spares() noexcept {
  std::erase_if(spares_, [](const auto& chunk) { return chunk->touched_memory() > kMostIdle; });
  if (spares_.size() > 1) spares_.resize(1);
}

std::size_t Pending::spare_bytes() const {
  std::size_t bytes = 0;
  for (const auto& chunk : spares_) bytes += chunk->touched_memory();
  return bytes;
}

}  // namespace warplite::engine

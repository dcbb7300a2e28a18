// The rows a transaction has written and not flushed: appended rows in chunks, and a log of
// what was erased, so that any earlier point of the transaction can be restored.
// Knows no SQLite: committed rows are named by (source, row), which the snapshot resolves.
// Threads: one; a View may hold the chunks and reads only rows that existed when it was made.
// Rows that somebody else may hold are never moved or overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/bitmap.h"
#include "core/chunk.h"
#include "core/process/process.h"

namespace warplite::engine {

class Pending {
 public:
  // Says where an erased row was: a segment (its id, row within it), the tail (row = sequence
  // number), or among the pending rows (row = its number in order of insertion).
  static constexpr std::int64_t kTail = 0;
  static constexpr std::int64_t kPending = -1;
  struct Erasure {
    std::int64_t source;
    std::int64_t row;
    RowId rowid;
  };

  // A point in the transaction.
  struct Mark {
    std::size_t erasures = 0;
    std::uint64_t rows = 0;
    std::size_t extra_bytes = 0;
  };

  // Rows in order of insertion; all slots but the last are full.
  struct Slot {
    std::shared_ptr<Chunk> chunk;
    std::uint32_t used = 0;  // rows that are ours; the chunk may hold later ones of another time
    RowId min_rowid = 0;     // bounds of all rows, perhaps wider
    RowId max_rowid = 0;
    Bitmap dead;  // empty while no row was erased
    std::uint32_t dead_rows = 0;

    bool alive(std::uint32_t row) const { return dead_rows == 0 || !dead.test(row); }
    std::uint32_t live() const { return used - dead_rows; }
    // Says whether the chunk's rows are all ours, and in ascending order, to be a segment as they
    // are.
    bool is_in_order() const {
      return used == chunk->size() && dead_rows == 0 && chunk->ascending();
    }
    // The same of all rows that there can be.
    bool is_whole() const { return used == chunk->capacity() && is_in_order(); }
  };

  struct SegmentErasures {
    Bitmap rows;  // as long as needed for the rows erased
    std::uint32_t count = 0;
    std::uint64_t version = 0;  // differs whenever `rows` differs
  };

  // Whatever a savepoint needs to come back to a mark after the rows were flushed.
  struct Frozen {
    std::vector<Slot> slots;
    std::vector<Erasure> log;
  };

  // `layout` outlives this object and every chunk it makes.
  explicit Pending(const Layout& layout)
      : layout_(&layout), row_bytes_(layout.row_bytes() + 8 * (layout.plains.size() + 1)),
        tail_restart_(new_number()) {}
  Pending(Pending&&) = default;
  Pending& operator=(Pending&&) = default;

  bool empty() const { return rows_ == 0 && log_.empty(); }
  // False when a flush would change nothing: all that was appended was erased again.
  bool has_changes() const { return live_rows() != 0 || committed_erasures_ != 0; }
  std::uint64_t live_rows() const { return rows_ - dead_rows_; }
  // Memory that a flush would free, roughly.
  std::size_t bytes() const;
  // The same of one full slot.
  std::size_t slot_bytes() const { return row_bytes_ * capacity(); }
  // Memory of the chunks kept for later rows.
  std::size_t spare_bytes() const;
  Mark mark() const { return {log_.size(), rows_, extra_bytes_}; }
  const std::vector<Slot>& slots() const { return slots_; }
  const std::vector<Erasure>& log() const { return log_; }

  // The rowid is not that of a live pending row. On an exception nothing has changed.
  void append(const RowView& row);
  // REQUIRES: not erased yet.
  void erase_committed(const Erasure& erasure);
  void erase_pending(std::uint64_t row);
  // Back to an earlier mark of this object.
  void truncate(const Mark& mark) noexcept;

  // The live pending row with this rowid, or with this text key.
  std::optional<std::uint64_t> find(RowId rowid) const;
  std::optional<std::uint64_t> find_key(std::string_view key);
  RowId rowid(std::uint64_t row) const;
  // No live row has a larger rowid.
  RowId rowid_bound() const;

  bool erased(std::int64_t source, std::int64_t row) const;
  // Null when no row of the segment was erased.
  const SegmentErasures* segment(std::int64_t id) const;
  const std::unordered_map<std::int64_t, SegmentErasures>& segments() const { return segments_; }
  const std::unordered_set<std::int64_t>& tail() const { return tail_; }
  std::uint64_t tail_version() const { return tail_version_; }
  // While this is the same, what was erased of the tail stays so, and what comes is in the log.
  std::uint64_t tail_restart() const { return tail_restart_; }

  std::shared_ptr<Frozen> freeze(const Mark& mark) const;
  static Pending restored(const Layout& layout, const Frozen& frozen, const Mark& mark);
  // The rows of the last slots alone, as a new object.
  Pending last_slots(std::size_t count) const;
  // Takes the contents of `next`, and keeps its own chunks as keep_spares() does.
  void become(Pending&& next) noexcept;
  // Keeps those chunks for later rows that nobody else holds, since new memory costs more than
  // copying a row into it.
  void keep_spares(std::vector<Slot>&& slots) noexcept;
  // Gives them back, except one that small transactions used.
  void drop_spares() noexcept;

 private:
  Slot& open_slot();
  void apply(const Erasure& erasure);
  void undo(const Erasure& erasure) noexcept;
  void index_keys();
  std::uint32_t capacity() const { return layout_->segment_rows; }

  const Layout* layout_;
  std::size_t row_bytes_;
  std::vector<Slot> slots_;
  std::vector<Erasure> log_;
  std::uint64_t rows_ = 0;
  std::uint64_t dead_rows_ = 0;
  std::size_t committed_erasures_ = 0;
  std::size_t extra_bytes_ = 0;  // texts and +columns
  std::unordered_map<std::int64_t, SegmentErasures> segments_;
  std::unordered_set<std::int64_t> tail_;
  std::uint64_t tail_version_ = 0, tail_restart_;
  std::unordered_map<std::string, std::uint64_t> keys_;  // the last row with each key
  bool keys_stale_ = false;
  static constexpr std::size_t kMostSpares = 8;
  static constexpr std::size_t kMostIdle = std::size_t{1} << 20;  // bytes between transactions
  std::vector<std::shared_ptr<Chunk>> spares_;
};

}  // namespace warplite::engine

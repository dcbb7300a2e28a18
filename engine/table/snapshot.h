// A Snapshot is what the shadow tables hold at one generation: segments and the tail, as parts.
// Immutable; successive snapshots share the parts that did not change, and the tail's chunk, which
// only grows (each snapshot knows how many of its rows it sees).
// Threads: as the connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/table/parts.h"

namespace warplite::engine {

// Tail rows in memory. Rows of other snapshots may lie beyond a snapshot's own.
struct TailRows {
  TailRows(const Layout& layout, std::uint32_t capacity) : chunk(layout, capacity) {}
  Chunk chunk;
  std::vector<std::int64_t> sequences;  // ascending, parallel to the chunk
  ContentTail content;                  // with Layout::content
};

struct Tail {
  std::shared_ptr<TailRows> rows;       // null when there are none
  std::uint32_t count = 0;              // rows of `rows` that belong to this snapshot
  std::shared_ptr<const Bitmap> alive;  // null: all. Rows we deleted stay in the chunk
  std::uint32_t live = 0;
  std::shared_ptr<const ChunkPart> part;

  std::int64_t last_sequence() const;  // of the live rows; REQUIRES: live > 0
  // The row with this sequence number, dead or alive. REQUIRES: there is one.
  std::uint32_t row_of(std::int64_t sequence) const;
  // Sets `live` and `part` from the other members. `name`: Store::tail_key().
  void seal(const Layout& layout, const CacheKey& name);
};

// A live committed row.
struct CommittedRow {
  std::int64_t source;  // as in Pending::Erasure
  std::int64_t row;
  const Part* part;
  std::uint32_t position;  // within the part
};

// The segments of a table, shared by snapshots between which none changed.
class SegmentList {
 public:
  using Parts = std::vector<std::shared_ptr<const SegmentPart>>;
  SegmentList() = default;
  explicit SegmentList(Parts parts);

  const Parts& parts() const { return parts_; }
  const RowIdIndex& rowids() const { return rowids_; }
  const storage::DirectorySummary& directory() const { return directory_; }
  // What searches keep of the segments: see View.
  const std::shared_ptr<DerivedStore>& derived() const { return derived_; }

 private:
  Parts parts_;  // ascending id
  RowIdIndex rowids_;
  storage::DirectorySummary directory_;
  std::shared_ptr<DerivedStore> derived_ = std::make_shared<DerivedStore>();
};

struct Snapshot {
  storage::State state;
  std::shared_ptr<const SegmentList> list = std::make_shared<SegmentList>();
  Tail tail;
  // True within a transaction when the shadow tables hold the rows, but not yet this state nor the
  // directory entries of segments from `first_unlisted` on. state.generation is the one that the
  // state record has.
  bool unlisted = false;
  std::int64_t first_unlisted = 0;

  const SegmentList::Parts& segments() const { return list->parts(); }
  // Returns a rowid that no row, dead ones included, exceeds.
  RowId rowid_bound() const;
  std::optional<CommittedRow> find(RowId rowid) const;
};

// The snapshot of the current transaction: `known` itself when nothing changed, else what
// changed is read and the rest is shared with `known` (which may be null).
// Throws Error{kCorrupt} when counters disagree, Error{kHost} (BUSY) when the tables keep
// changing while they are read.
std::shared_ptr<const Snapshot> read_snapshot(storage::Store& store, const TableOptions& options,
                                              const std::shared_ptr<const Snapshot>& known);

// For content=, returns the same snapshot with its tail read again, if rows that were lost exist by
// now; the same snapshot with its tail read again, if rows of it that were lost are there by now;
// else null.
std::shared_ptr<const Snapshot> look_again(storage::Store& store, const TableOptions& options,
                                           const Snapshot& snapshot);

// A tail with room for `more` rows after its `count` ones: the same chunk, or a copy without dead
// rows.
void make_room(const TableOptions& options, Tail& tail, std::uint32_t more);

}  // namespace warplite::engine

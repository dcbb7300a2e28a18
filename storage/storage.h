// One table's shadow tables on one connection: rows in, immutable segments out.
// docs/file_format.md describes every byte; this page says who calls what.
//
//   NAME_state     id, record BLOB       one row: generation, tail epoch, counters
//   NAME_segments  id, info BLOB         a segment's directory entry (SegmentInfo)
//   NAME_blocks    id, data BLOB         id = segment * 4096 + slot; header + payload
//   NAME_tail      id, flush BLOB, row INTEGER, sum, v0 …, c0 …  rows not yet in a segment
//                  (with Layout::content: id, flush BLOB, row INTEGER, sum, hash)
//   NAME_aux       id (= rowid), a0 …    +columns, when there are any
//   NAME_keys      id (= rowid), key BLOB UNIQUE             TEXT PRIMARY KEY, when there is one
//
// Threads: as the connection. Every member runs inside the host's transaction and
// prepares its statements once. Errors: Error{kHost} passes a SQLite code on;
// Error{kCorrupt} names the table and the segment when a length, checksum, stamp
// or range is wrong. Writes leave sqlite3_last_insert_rowid() as it was.
// Call protocol: create_tables? (read_* | load_*)* ; writes only between a change of
// pending rows and write_state(), which ends the last flush of a transaction.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bitmap.h"
#include "core/bytes.h"
#include "core/chunk.h"
#include "core/column.h"
#include "core/error.h"
#include "core/process/cache_key.h"
#include "core/process/stamp.h"
#include "core/types.h"
#include "storage/codec/records.h"

struct sqlite3;

namespace warplite::storage {

// SegmentKeys are the names of a segment's blocks in memory, each made from all that reading it is
// checked against: the database, the block's header and what else the directory entry says of it. A
// key is null if there is no block.
struct SegmentKeys {
  CacheKey rowids, alive, hashes;
  std::vector<CacheKey> vectors, plains;  // per Layout::vectors, Layout::plains
  std::vector<CacheKey> codes;            // per Layout::vectors, or empty
};

// One vector column of a segment. `present` is empty when no vector is NULL.
struct VectorBlock {
  Bytes memory;
  MatrixView vectors;  // into memory, or into a chunk
  Bitmap present;
};

// What is known of a block of vectors that is read row by row: pieces of it by their checksums, and
// the pages of the file that had them.
struct VectorPieces {
  std::size_t bytes = 0;             // of the block
  std::size_t local = 0, each = 0;   // of the first piece, and of every other but the last
  std::vector<std::uint64_t> sums;   // of each
  std::vector<std::uint32_t> pages;  // of each but the first; empty: they were not found
  Bitmap present;                    // rows with a vector; empty when no vector is NULL
};

// A block that only others understand: a model, or codes.
struct OpaqueBlock {
  Bytes memory;
  std::span<const std::byte> payload;  // into memory
};

// The blocks of a table as its file has them, for any thread while the connection's waits. What the
// file has not, or not yet, SQLite may have: what is asked of a BlockFile throws Error{kCorrupt}
// for that.
struct BlockFile;

// Says whether a column's model is what its index learnt from the rows of this table.
enum class ModelOrigin { kLearnt, kGiven };

// Tail rows as they were read: the flush stamp of the last one, or null, and the sum of their
// checksums.
struct TailRead {
  Stamp last_flush;
  std::uint64_t digest = 0;
};

// A tail row of a table with Layout::content.
struct ContentTailRow {
  std::int64_t sequence;
  RowId rowid;
  std::uint64_t hash;
};

class Store {
 public:
  // `db` outlives the store. `layout` is copied.
  Store(sqlite3* db, std::string schema, std::string table, Layout layout);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const Layout& layout() const;
  const std::string& schema() const;
  const std::string& table() const;
  sqlite3* db() const;
  // Tells the host's error log (SQLITE_NOTICE) something about the table.
  void notice(const std::string& text) const;

  void create_tables();
  void drop_tables();
  void rename_tables(const std::string& new_table);
  // Says whether there are tables of this name, perhaps made anew by another store.
  bool present() const;
  // renames() returns how often the table was renamed since keep_name(); undo_renames() goes back
  // to an earlier count when SQLite rolls back to where it was that.
  std::size_t renames() const noexcept;
  void undo_renames(std::size_t kept) noexcept;
  // Outside of a transaction of the engine, which hears of no rollback: goes by the name that the
  // tables have if a rename failed after all.
  void settle_name();
  // The name is for good.
  void keep_name() noexcept;

  // --- reading -----------------------------------------------------------
  // Just the generation, in one prepared step (the hot path of every query). The record's
  // checksum is verified by read_state(). Like every read here it ends with its statement
  // reset: the snapshot it saw lasts only while a transaction or a statement of the host's
  // (the one that called xFilter) is open around it. Under such a one all reads agree.
  Stamp read_generation();
  State read_state();
  std::vector<SegmentInfo> read_segments();  // ascending id
  // Throws Error{kCorrupt} unless `found` is what `state` says of the directory, whose last segment
  // is `last` (0: there is none).
  void verify_directory(const State& state, const DirectorySummary& found,
                        std::int64_t last) const;
  // Appends to `rows` the tail rows with sequence > `after`, in sequence order, and
  // their sequence numbers, which ascend. Throws Error{kCorrupt} when there are more than `rows`
  // has room for. REQUIRES: !layout().content
  TailRead read_tail(std::int64_t after, Chunk& rows, std::vector<std::int64_t>& sequences);
  // The same of a table whose rows are elsewhere. REQUIRES: layout().content
  TailRead read_content_tail(std::int64_t after, std::vector<ContentTailRow>& rows);
  // Returns how many tail rows with sequence > `after` there are.
  std::int64_t count_tail(std::int64_t after);
  // Throws Error{kCorrupt} unless the tail is the one that `state` describes: its newest row is
  // `sequence` (0: there is none), read as `found` says. If the state has no digest, it gets one.
  void verify_tail(State& state, std::int64_t sequence, const TailRead& found) const;
  // The flush stamp of tail row `sequence`; null when there is no such row.
  Stamp tail_flush(std::int64_t sequence);
  // Names the tail's rows as the record describes them, in the order of their sequence numbers, for
  // all connections of the process. Null: there are none, or they are elsewhere.
  CacheKey tail_key(const State& state) const;

  // Null: SQLite alone reads them.
  std::shared_ptr<const BlockFile> block_file();
  // REQUIRES of the next four: !layout().content. Null: SQLite reads.
  VectorBlock load_vectors(const SegmentInfo& segment, std::size_t column,
                           const BlockFile* file = nullptr);
  // Reads the block, once, so that rows can be read by themselves from then on. REQUIRES: the
  // column has a block.
  VectorPieces cut_vectors(const SegmentInfo& segment, std::size_t column,
                           const BlockFile* file = nullptr);
  // Copies vectors of some rows, which ascend, to `out`, one after another; zeros for NULL. False:
  // the pages are not what they were, so that it took longer than it need.
  bool read_vectors(const SegmentInfo& segment, std::size_t column, const VectorPieces& pieces,
                    std::span<const std::uint32_t> rows, std::byte* out);
  Column load_plain(const SegmentInfo& segment, std::size_t column,
                    const BlockFile* file = nullptr);
  // Ascending. REQUIRES: !segment.rowids.is_null()
  std::vector<RowId> load_rowids(const SegmentInfo& segment);
  // REQUIRES: !segment.alive.is_null()
  Bitmap load_alive(const SegmentInfo& segment);
  // Returns the hash of each row, see row_hash(). REQUIRES: layout().content
  std::vector<std::uint64_t> load_hashes(const SegmentInfo& segment);

  // REQUIRES: the column is coded.
  OpaqueBlock load_codes(const SegmentInfo& segment, std::size_t column,
                         const BlockFile* file = nullptr);
  // The column's model, which has this stamp.
  OpaqueBlock load_model(const Stamp& stamp, std::size_t column);
  ModelOrigin model_origin(const Stamp& stamp, std::size_t column);

  SegmentKeys keys(const SegmentInfo& segment) const;
  // Says whether another connection, or a later one, has the same keys.
  bool shares_keys() const;
  CacheKey model_key(const Stamp& stamp, std::size_t column) const;

  Value read_aux(RowId rowid, std::size_t column);  // NULL when there is no such row
  std::optional<RowId> find_key(std::string_view key);

  // --- writing -----------------------------------------------------------
  // Writes rows as one segment, in ascending rowid order (they may come in any).
  // Takes the blocks' bytes from the chunk itself when the rows are all the rows of
  // one ascending chunk whose header space is kBlockHeader (which it overwrites).
  // With Layout::codes_only, vectors of columns that have a model are left out, for their codes; with
  // Layout::content, vectors and values.
  // REQUIRES: 1 ≤ rows ≤ segment_rows, rowids distinct. `state.next_segment` is advanced.
  SegmentInfo seal(State& state, std::span<const RowRef> rows);
  // The two halves of seal(). Until its entry is written a segment can be read by whoever
  // has its SegmentInfo; nobody else finds it.
  enum class Codes { kFollow, kNone };  // kNone: vectors are kept, whatever the layout says
  SegmentInfo seal_blocks(State& state, std::span<const RowRef> rows, Codes codes);
  void write_entry(const SegmentInfo& segment);
  // Erases a column's vectors, which are coded. The entry is not written.
  void erase_vectors(SegmentInfo& segment, std::size_t column);
  // Replaces the alive bitmap under a fresh stamp, and live_rows with it.
  void write_alive(SegmentInfo& segment, const Bitmap& alive);
  void drop_segment(const SegmentInfo& segment);
  // Replaces a column's codes, made by `model`, under a fresh stamp. The entry is not written.
  void write_codes(SegmentInfo& segment, std::size_t column, const Stamp& model,
                   std::span<const std::byte> codes);
  // Replaces a column's model under a fresh stamp, which `state` gets.
  void write_model(State& state, std::size_t column, std::span<const std::byte> bytes,
                   ModelOrigin origin = ModelOrigin::kLearnt);

  // Appends rows under sequence numbers state.last_sequence + 1, …, all with
  // the stamp `flush`; advances state.last_sequence, last_flush and tail_rows.
  // With Layout::content their values are left out.
  void append_tail(State& state, const Stamp& flush, std::span<const RowRef> rows);
  // Removes rows and gives the tail a fresh epoch.
  void erase_tail(State& state, std::span<const std::int64_t> sequences);
  void clear_tail(State& state);

  void put_aux(std::span<const RowRef> rows);
  void erase_aux(std::span<const RowId> rowids);
  // Throws Error{kConstraint} when a key exists.
  void put_keys(std::span<const RowRef> rows);
  void erase_keys(std::span<const RowId> rowids);

  // Writes the record under a fresh generation, which it stores in `state` too.
  void write_state(State& state);

  // --- checking ----------------------------------------------------------
  // Reads and verifies everything; one sentence per fault, at most `limit`.
  std::vector<std::string> check(std::size_t limit);

  struct Impl;  // store_impl.h, for storage/ alone

 private:
  std::unique_ptr<Impl> impl_;
};

// A column of some rows as a segment of them holds it: in ascending rowid order. Without a copy when
// the rows are all the rows of one ascending chunk, which then outlives the block.
VectorBlock gather_vectors(const Layout& layout, std::span<const RowRef> rows,
                           std::size_t column);

// True when `suffix` (after NAME_) names a shadow table (xShadowName).
bool is_shadow_suffix(std::string_view suffix);
// Says whether the table NAME_suffix, of which sqlite_schema has this statement, is one.
bool is_shadow_table(std::string_view suffix, std::string_view create_statement);

}  // namespace warplite::storage

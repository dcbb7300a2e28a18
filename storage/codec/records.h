// What the records of a table say: its State, and the directory entry of each segment
// (SegmentInfo). docs/file_format.md, "Records".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/chunk.h"
#include "core/process/stamp.h"

namespace warplite::storage {

// Bytes in front of every block's payload (see file_format.md). A Chunk that will
// be sealed leaves this much room before its vectors.
inline constexpr std::size_t kBlockHeader = 64;

struct SegmentInfo;

// A DirectorySummary is what the state record says of the directory, so that an entry that vanished
// or is of another time is noticed: the number of entries and a sum over what they name.
struct DirectorySummary {
  std::int64_t segments = 0;
  std::uint64_t digest = 0;

  // What an entry adds to the sum.
  static std::uint64_t digest_of(const SegmentInfo& segment);
  void add(const SegmentInfo& segment) { add(digest_of(segment)); }
  void add(std::uint64_t digest_of_one) {
    ++segments;
    digest += digest_of_one;
  }
  friend bool operator==(const DirectorySummary&, const DirectorySummary&) = default;
};

struct State {
  Stamp generation;             // random; fresh at every flush
  Stamp tail_epoch;             // changes when a tail row is removed; appends keep it
  std::int64_t last_sequence = 0;  // id of the newest tail row ever written
  Stamp last_flush;             // NAME_tail.flush of the newest tail row, null when empty
  // The sum of the tail rows' checksums, so that rows of another time are noticed. Nothing: the
  // record was written before there was one.
  std::optional<std::uint64_t> tail_digest = 0;
  std::int64_t next_segment = 1;
  std::int64_t tail_rows = 0;
  DirectorySummary directory;   // of all segments; the engine keeps it in step
  std::vector<Stamp> models;    // per Layout::vectors, or empty; null: the column has none
};

// Smallest and largest value in a plain column's block, to skip segments. Text
// bounds are cut to a prefix and compare as lower and upper bounds under BINARY.
struct ZoneMap {
  bool all_null = true;
  bool has_null = false;
  Value low, high;  // inclusive; meaningless when all_null
};

// CodesInfo says what a column's index keeps of a segment: the block's stamp, and that of the model
// that made it.
struct CodesInfo {
  Stamp block;  // null: not coded
  Stamp model;

  friend bool operator==(const CodesInfo&, const CodesInfo&) = default;
};

struct SegmentInfo {
  std::int64_t id = 0;
  std::uint32_t rows = 0;
  std::uint32_t live_rows = 0;
  RowId min_rowid = 0;
  RowId max_rowid = 0;
  Stamp rowids;                 // null: the run min_rowid, min_rowid + 1, …
  Stamp alive;                  // null: all rows are alive
  Stamp hashes;                 // of each row's values; null without Layout::content
  // With Layout::content these name values that no block holds.
  std::vector<Stamp> vectors;   // per Layout::vectors; null: every vector is NULL, or only coded
  std::vector<Stamp> plains;    // per Layout::plains; null: every value is NULL
  std::vector<CodesInfo> codes;  // per Layout::vectors, or empty: nothing is coded
  std::vector<ZoneMap> zones;   // per Layout::plains
};

// A row of a chunk, to be written.
struct RowRef {
  const Chunk* chunk;
  std::uint32_t row;
};

}  // namespace warplite::storage

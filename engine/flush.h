// Writes pending rows to the shadow tables: deletions into alive bitmaps, new rows into the
// tail or into segments, and at the end of a transaction the directory and the state record.
// Within one these wait: SQLite would write their pages out between blocks and, in WAL mode,
// redo the checksum of every frame that follows when they change again.
#pragma once

#include <memory>
#include <vector>

#include "engine/table/models.h"
#include "engine/table/pending.h"
#include "engine/table/write_context.h"
#include "engine/training/coding_ahead.h"

namespace warplite::engine {

enum class FlushScope {
  kAll,         // at the end of a transaction, or before the table is rewritten; segments get no
                // codes but those made ahead (see code_missing())
  kFullChunks,  // within one: what is not a whole segment yet stays pending, directory
                // entries and state stay unwritten
};

struct FlushResult {
  std::shared_ptr<const Snapshot> snapshot;  // what the tables hold now
  Pending rest;                              // what is still pending
};

// So many rows are sealed, and fewer go to the tail. Every search compares that row by row, and uploads it to
// a GPU after every commit: `load`, a transaction that made segments, leaves little of it, at the price of a
// shorter segment.
std::size_t least_segment(const TableOptions& options, const storage::State& state, bool load);

// Says whether rows can be read: a content table may have been dropped in this transaction, which
// is to end all the same. Throws what else reading fails with.
bool values_are_there(const TableOptions& options);

// On an exception the tables may be half-written; `base` and `pending` are as before.
// `ahead`: may have codes of full chunks. Within a transaction its latest ones stay pending.
FlushResult flush(const WriteContext& context, const Pending& pending, CodingAhead& ahead,
                  FlushScope scope);

}  // namespace warplite::engine

// Writes pending rows to the shadow tables: deletions into alive bitmaps, new rows into the
// tail or into segments, and the state record last.
#pragma once

#include <memory>

#include "engine/pending.h"
#include "engine/snapshot.h"

namespace warplite::engine {

enum class FlushScope {
  kAll,        // at the end of a transaction, or before the table is rewritten
  kFullChunks, // within one: what is not a whole segment yet stays pending
};

struct FlushResult {
  std::shared_ptr<const Snapshot> snapshot;  // what the tables hold now
  Pending rest;                              // what is still pending
};

// REQUIRES: `base` is the current state of the tables. On an exception they may be
// half-written; `base` and `pending` are as before.
FlushResult flush(storage::Store& store, const TableOptions& options, const Snapshot& base,
                  const Pending& pending, FlushScope scope);

}  // namespace warplite::engine

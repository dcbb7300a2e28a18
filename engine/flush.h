// Writes pending rows to the shadow tables: deletions into alive bitmaps, new rows into the
// tail or into segments, and the state record last.
#pragma once

#include <memory>
#include <vector>

#include "engine/pending.h"
#include "engine/snapshot.h"

namespace warplite::engine {

enum class FlushScope {
  kAll,         // at the end of a transaction, or before the table is rewritten
  kFullChunks,  // within one: what is not a whole segment yet stays pending
};

struct FlushResult {
  std::shared_ptr<const Snapshot> snapshot;  // what the tables hold now
  Pending rest;                              // what is still pending
};

// What a flush or a rewrite starts from.
struct WriteContext {
  storage::Store& store;
  const TableOptions& options;
  std::shared_ptr<const Snapshot> base;              // the current state of the tables
  std::vector<std::shared_ptr<const View>> readers;  // views in use, which stay readable
};

// On an exception the tables may be half-written; `base` and `pending` are as before.
FlushResult flush(const WriteContext& context, const Pending& pending, FlushScope scope);

}  // namespace warplite::engine

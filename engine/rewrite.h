// Rewriting segments: optimize and rebuild.
#pragma once

#include <memory>

#include "engine/snapshot.h"

namespace warplite::engine {

enum class RewriteScope {
  kWorthwhile,  // small and sparse segments, the tail, and partitions that overlap
  kEverything,
};

// Merges live rows into full segments, holding one of them in memory at a time, and writes the
// state record last. Returns `base` when there is nothing to do. REQUIRES: `base` is the
// current state of the tables. On an exception they may be half-written.
std::shared_ptr<const Snapshot> rewrite(storage::Store& store, const TableOptions& options,
                                        const std::shared_ptr<const Snapshot>& base,
                                        RewriteScope scope);

}  // namespace warplite::engine

// Rewriting segments: optimize and rebuild.
#pragma once

#include <memory>

#include "engine/flush.h"

namespace warplite::engine {

enum class RewriteScope {
  kWorthwhile,  // small and sparse segments, the tail, and partitions that overlap
  kEverything,
  kTail,  // the tail alone
};

// Where a new model may come next, segments get no codes: see install_models(), code_missing().
// Merges live rows into full segments, holding one of them in memory at a time, and writes the
// state record last. Returns the base when there is nothing to do. On an exception the tables
// may be half-written.
std::shared_ptr<const Snapshot> rewrite(const WriteContext& context, RewriteScope scope);

}  // namespace warplite::engine

// Rewriting segments: optimize and rebuild.
#pragma once

#include <cstdint>
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

// The same for a table whose index has learnt: merges small segments once there are some of a size, so that
// they stay few, and each row is written as many times as sizes differ by a factor; and seals the
// tail, where it has become long. Segments of numbers below `first` stay unless they are many, and so do those
// that are damaged or wait for codes.
std::shared_ptr<const Snapshot> merge_small(const WriteContext& context, std::int64_t first);

}  // namespace warplite::engine

// Training: rows are drawn from a snapshot, evenly and always the same ones, and a model learns
// from them. Nothing is written; coding.h does that.
// Threads: as the store.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/table/models.h"
#include "engine/table/snapshot.h"

namespace warplite::engine {

// Live rows of sealed segments whose column is not all NULL: what training is worth while for.
std::uint64_t sealed_rows(const Snapshot& snapshot, std::size_t column);

// Throws Error{kInvalid} when there are too few vectors, Error{kInterrupted}.
std::shared_ptr<const index::Model> learn(const Snapshot& snapshot, const TableOptions& options,
                                          std::size_t column, const index::Trained& index,
                                          compute::Cancellation* cancellation,
                                          const index::Progress& progress);

}  // namespace warplite::engine

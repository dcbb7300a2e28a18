// Training: rows are drawn from a snapshot, evenly and always the same ones, and a model learns
// from them. Nothing is written; coding.h does that.
// Threads: as the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/table/models.h"
#include "engine/table/snapshot.h"

namespace warplite::engine {

// Rows of a table of `rows` to learn from: as many as the index wants, but fewer, to an eighth, where
// two cores would need longer than `seconds` for more; 0: no matter how long. It does not depend on
// the machine.
std::size_t rows_in_time(const index::Trained& index, std::uint64_t rows, std::uint32_t seconds);

// A column of a table could not learn: no transaction tries again, of whatever connection of the process, before there
// are so many times the rows, or, where it took longer than `seconds`, more time. 0: it was no matter of time.
void remember_late(const Snapshot& snapshot, std::size_t column, double growth, std::uint32_t seconds);
bool was_late(const Snapshot& snapshot, std::size_t column);

// Live rows of sealed segments whose column is not all NULL: what training is worth while for.
std::uint64_t sealed_rows(const Snapshot& snapshot, std::size_t column);

// What became of the rows of a column since then: live rows of sealed segments, those that are
// newer, and how many of the others are gone.
struct Change {
  std::uint64_t rows = 0, newer = 0, gone = 0;
};
Change change_since(const Snapshot& snapshot, std::size_t column, const index::TableMoment& then);

// Says whether rows that are newer than the measurement of the model's recall are unlike those that
// it was measured with (index/recall/drift.h). Throws Error{kInterrupted}.
bool newer_drifted(const Snapshot& snapshot, const TableOptions& options, std::size_t column,
                   const index::InvertedModel& model, compute::Cancellation* cancellation);

// Live rows, of all that training sees.
std::uint64_t live_rows(const Snapshot& snapshot, std::size_t column);

// The model, its recall measured with `rows` of those that there are now; null: these are too few. Throws
// Error{kInterrupted}.
std::shared_ptr<const index::InvertedModel> measure(
    const Snapshot& snapshot, const TableOptions& options, std::size_t column,
    const index::InvertedIndex& index, const index::InvertedModel& model, std::size_t rows,
    compute::Cancellation* cancellation, const index::Progress& progress);

// Learns from so many rows. Throws Error{kInvalid} when there are too few vectors,
// Error{kInterrupted}.
std::shared_ptr<const index::Model> learn(const Snapshot& snapshot, const TableOptions& options,
                                          std::size_t column, const index::Trained& index,
                                          std::size_t rows,
                                          compute::Cancellation* cancellation,
                                          const index::Progress& progress);

}  // namespace warplite::engine

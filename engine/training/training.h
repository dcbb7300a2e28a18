// Training: rows are drawn from a snapshot, evenly and always the same ones, and a model learns
// from them. Nothing is written; coding.h does that.
// Threads: as the store.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/table/models.h"
#include "engine/table/snapshot.h"

namespace warplite::engine {

// Seconds that an index may take to learn at the end of a transaction; 0: none learns there. Of the
// whole process; 30 at first. Threads: any.
void set_training_limit(std::uint32_t seconds);
std::uint32_t training_limit();

// Ends what takes longer than that, and what `asked`, which may be null, says is to end.
// Threads: as `asked`.
class TimeLimit : public compute::Cancellation {
 public:
  TimeLimit(compute::Cancellation* asked, std::uint32_t seconds)
      : asked_(asked), end_(Clock::now() + std::chrono::seconds(seconds)) {}

  bool requested() override {
    return passed() || (asked_ != nullptr && asked_->requested());
  }
  bool passed() const { return Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;

  compute::Cancellation* const asked_;
  const Clock::time_point end_;
};

// Rows of a table of `rows` to learn from: as many as the index wants, but fewer, to an eighth, where
// two cores would need longer than `seconds` for more; 0: no matter how long. It does not depend on
// the machine.
std::size_t rows_in_time(const index::Trained& index, std::uint64_t rows, std::uint32_t seconds);

// Remembers of how many rows the column of a table could not learn in time, so that no transaction
// tries again, of whatever connection of the process, until there are twice as many. Threads: any.
void remember_late(const Snapshot& snapshot, std::size_t column);
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

// The model, its recall measured with the rows that there are now; null: these are too few. Throws
// Error{kInterrupted}.
std::shared_ptr<const index::InvertedModel> measure(
    const Snapshot& snapshot, const TableOptions& options, std::size_t column,
    const index::InvertedIndex& index, const index::InvertedModel& model,
    compute::Cancellation* cancellation, const index::Progress& progress);

// Learns from rows_in_time(). Throws Error{kInvalid} when there are too few vectors,
// Error{kInterrupted}.
std::shared_ptr<const index::Model> learn(const Snapshot& snapshot, const TableOptions& options,
                                          std::size_t column, const index::Trained& index,
                                          std::uint32_t seconds,
                                          compute::Cancellation* cancellation,
                                          const index::Progress& progress);

}  // namespace warplite::engine

// Rows of inverted files: where the row of an ordinal lies, and canonical distances of rows that
// lie anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/ivf.h"
#include "core/bytes.h"
#include "core/topk.h"
#include "cpu/scan/query_set.h"
#include "cpu/scan/screen.h"

namespace warplite::cpu {

struct RowPlace {
  const compute::Block* block;
  std::uint32_t row;
};

// The rows of all runs of a search, in the order of ordinals. Constant once made.
class RowMap {
 public:
  // Throws Error{kLimit} when there are more rows than 32 bits can number.
  explicit RowMap(std::span<const compute::IvfRun> runs);

  std::uint32_t rows() const { return rows_; }
  bool all_live() const { return all_live_; }
  // Brings the bits of all blocks together: the others REQUIRE it, unless all_live().
  void gather_live();
  // A bit for each ordinal, set where the row takes part, and a word behind the last.
  const std::uint64_t* live() const { return live_.data(); }
  bool lives(std::uint32_t ordinal) const {
    return all_live_ || ((live_[ordinal / 64] >> (ordinal % 64)) & 1) != 0;
  }
  // How many of the rows take part, whose ordinals are counted from `first` on.
  std::uint32_t count_live(std::span<const std::uint32_t> ordinals, std::uint32_t first) const;
  // Ordinal, among all rows, of a run's first one.
  std::uint32_t first_of(std::size_t run) const { return firsts_[run]; }
  RowPlace at(std::uint32_t ordinal) const {
    std::uint32_t block = guesses_[ordinal >> shift_];
    while (ordinal >= starts_[block + 1]) ++block;
    return {blocks_[block], ordinal - starts_[block]};
  }

 private:
  std::uint32_t rows_ = 0;
  bool all_live_ = true;
  std::vector<std::uint64_t> live_;
  std::vector<std::uint32_t> firsts_;
  std::vector<std::uint32_t> starts_;          // of each block, and the end
  std::vector<const compute::Block*> blocks_;  // that are not empty
  std::vector<std::uint32_t> guesses_;         // block of every 2^shift-th ordinal
  int shift_ = 0;
};

// Compares rows with queries: rows are brought together first, a few at a time, since they may lie
// far apart and several queries may want them. One per thread.
class RowScorer {
 public:
  // `screen` may be null. Throws std::bad_alloc.
  RowScorer(const compute::Workload& work, const ScanKernels& kernels, const QuerySet& queries,
            const Screen* screen);

  // Adds the rows, in any order, to the best of every target.
  struct Target {
    std::size_t query;
    TopK* best;
  };
  void add(std::span<const RowPlace> rows, std::span<const Target> targets);

 private:
  void make_room(std::size_t rows);
  const std::byte* gather(std::span<const RowPlace> all, std::size_t first, std::size_t n);
  void add_near(const Target& target, const RowPlace* rows, const std::byte* vectors,
                std::size_t n);

  const Distance distance_;
  const std::size_t stride_;
  const ScoreRows score_;
  const QuerySet& queries_;
  const Screen* screen_;
  std::size_t most_;  // rows scored together
  Bytes copies_;
  std::vector<std::uint32_t> all_, kept_;
  std::vector<float> lows_;
  std::vector<double> scores_;
};

}  // namespace warplite::cpu

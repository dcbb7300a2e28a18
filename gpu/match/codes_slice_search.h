// Match counting over columns of codes for many queries at once (gpu/match/codes_slices.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/match/codes_batch.h"
#include "gpu/match/codes_slices.h"

namespace warplite::gpu {

// Queries that go together, and the columns that they are counted by: each column of codes as often
// as some query has items on it.
struct SlicePlan {
  std::vector<std::uint32_t> queries;  // at most kSliceQueries
  std::vector<std::uint32_t> columns;  // of codes

  std::uint32_t groups() const { return slice_groups(static_cast<std::uint32_t>(columns.size())); }
};

// Takes as many of the queries from `first` on as go together, where each of their items counts 1
// and they are enough to be worth it; the others go to `rest`. Returns where to go on.
std::size_t plan_slices(const compute::CodeWork& work, std::span<const std::uint32_t> queries,
                        std::size_t first, SlicePlan& plan, std::vector<std::uint32_t>& rest);

class SliceSearch {
 public:
  // `views`: the table's, on the device. REQUIRES: table.ascending(); rows must count `least` to be
  // of use, whatever the hits so far.
  SliceSearch(Lane& lane, const compute::CodeWork& work, const TileTable& table,
              const MatchTileView* views)
      : lane_(lane), work_(work), table_(table), views_(views) {}

  // Returns how many tiles go at once.
  static std::size_t tiles_at_once(std::uint32_t groups);
  // Adds the rows with the largest counts. Throws Error{kNoMemory}, Error{kInterrupted}.
  void best_rows(const SlicePlan& plan, compute::HitTable& best);

 private:
  struct Pieces;

  Pieces lay_out(const SlicePlan& plan, std::size_t k, const Plan& batch) const;
  unsigned fill(const SlicePlan& plan, const CodeBatch& batch, const Pieces& at,
                const Staging& host, compute::HitTable& best) const;
  void fill_items(const SlicePlan& plan, std::span<std::uint32_t> items) const;
  SliceView view_of(const SlicePlan& plan, const CodeBatch& batch, const Pieces& at,
                    const Arena& arena, std::size_t k) const;

  Lane& lane_;
  const compute::CodeWork& work_;
  const TileTable& table_;
  const MatchTileView* views_;
};

}  // namespace warplite::gpu

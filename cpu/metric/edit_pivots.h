// A batch of queries through the pivots of a tile (compute/edit_metric.h).
// Threads: one, which shares the work out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu/metric/edit_measures.h"
#include "cpu/metric/edit_pivot_table.h"
#include "cpu/metric/edit_visits.h"

namespace warplite::cpu {

class PivotSearch {
 public:
  // Everything outlives it. `k`: 0 for all within the limits.
  PivotSearch(const compute::EditWork& work, const EditTileView& view, const PivotTable& table,
              std::span<const std::uint32_t> queries, std::size_t k, EditResults& results,
              EditThreads& threads);

  // Adds results of the queries, but for those returned: comparing all takes less for what they
  // lack, which is what their bands of the results tell.
  std::vector<std::uint32_t> run();
  // Texts that pivots did not rule out.
  std::uint64_t visited() const { return visited_; }

 private:
  // One query's way: the radius within which all is found, round by round.
  struct Walk {
    std::uint32_t place;  // in the batch
    std::size_t length;
    std::int64_t radius = -1, known = -1;  // of this round, and the one before
    bool left_out = false;
    std::vector<PivotTest> tests = {};
    std::vector<std::uint32_t> left = {};  // texts of each group that pivots do not rule out
  };

  bool widen(Walk& walk);
  void find_tests(Walk& walk) const;
  void test(Walk& walk) const;
  bool worthwhile(const Walk& walk, std::span<const std::uint32_t> groups, std::size_t step) const;
  void add_visits(const Walk& walk);

  std::int64_t limit(const Walk& walk) const { return results_.limit(queries_[walk.place]); }

  const compute::EditWork& work_;
  const EditTileView& view_;
  const PivotTable& table_;
  const std::span<const std::uint32_t> queries_;
  const std::size_t k_;
  EditResults& results_;
  EditThreads& threads_;
  const EditKernels& kernels_;
  const EditMeasures measures_;
  EditVisits visits_;
  std::uint64_t visited_ = 0;
};

}  // namespace warplite::cpu

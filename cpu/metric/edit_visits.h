// EditVisits collects which texts of a metric index the queries of a batch are compared with, and
// compares them: where several of a group are, all of it at once; where queries meet in a group,
// one after another.
// Threads: add() of different queries on several threads at once; else one.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/edit_metric.h"
#include "cpu/edit/threads.h"
#include "cpu/edit/tile.h"

namespace warplite::cpu {

// Groups that an index may visit for each that comparing all compares, and take less: queries of a
// batch share more of the latter (bench/NOTES.md).
inline double worthwhile_share(std::size_t queries) { return queries < 4 ? 0.75 : 0.45; }

class EditVisits {
 public:
  // Collects visits of a batch of queries to some groups of an index.
  EditVisits(const EditTileView& view, const compute::MetricTexts& texts,
             const std::uint16_t* rows, std::span<const std::uint32_t> queries);

  // Adds some texts of a group, each pair of query and group once until compare().
  void add(std::uint32_t query, std::uint32_t group, std::uint32_t texts);
  // Forgets them. `columns`: of each query, about.
  void compare(EditThreads& threads, std::size_t columns);

 private:
  struct Visits {
    std::vector<EditVisit> most, few;  // by how many texts of a group
  };

  void compare_groups(EditThreads& threads, std::size_t columns);
  void compare_few(EditThreads& threads, std::size_t columns);

  const EditTileView& view_;
  const compute::MetricTexts& texts_;
  const std::uint16_t* const rows_;
  const std::span<const std::uint32_t> queries_;
  std::vector<Visits> visits_;  // by query
  std::vector<EditVisit> by_group_;
};

}  // namespace warplite::cpu

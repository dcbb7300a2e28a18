// Searches by comparing queries with every row canonically, a few queries a pass (scan.h). Exact
// by construction, for every type, distance, k and range: what the batch search does not do, or
// could not prove, ends here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/ops.h"
#include "gpu/batch/shadow.h"
#include "gpu/rows/row_set.h"
#include "gpu/runtime/lane.h"
#include "gpu/scan/scan.h"

namespace warplite::gpu {

class ScanSearch {
 public:
  // `table` was uploaded on the lane.
  ScanSearch(Lane& lane, const compute::Workload& work, const RowSet& rows, const RowTable& table)
      : lane_(lane), work_(work), rows_(rows), table_(table) {}

  // Adds the nearest rows of the named queries.
  void nearest(std::span<const std::uint32_t> queries, compute::HitTable& best);
  void within(std::span<const std::uint32_t> queries, compute::HitLists& out);

 private:
  struct Pass;
  struct Pieces;

  Pass start(std::span<const std::uint32_t> queries, bool sorts);
  PreparedQueries prepare(std::span<const std::uint32_t> queries, const Pieces& at,
                          const Arena& arena);
  void compare(Scan scan);
  void pick(const Pass& pass, std::span<const std::uint32_t> queries, compute::HitTable& best);
  void sort(const Pass& pass, unsigned slot, TopK& best);
  void collect(const Pass& pass, unsigned slot, std::vector<Hit>& out);

  Lane& lane_;
  const compute::Workload& work_;
  const RowSet& rows_;
  const RowTable& table_;
};

}  // namespace warplite::gpu

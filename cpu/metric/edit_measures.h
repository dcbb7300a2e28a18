// Distances of the queries of a batch to centres or pivots (compute/edit_metric.h).
// Threads: one, which shares the work out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu/edit/threads.h"

namespace warplite::cpu {

class EditMeasures {
 public:
  // REQUIRES: distances are below 65,536.
  EditMeasures(EditThreads& threads, const compute::EditWork& work, const EditTileView& view,
               const compute::MetricTexts& texts, std::span<const std::uint32_t> queries);

  // Returns the distances of the query at this place of the batch, by place of the texts.
  const std::uint16_t* of(std::size_t query) const { return distances_.data() + query * stride_; }
  // Returns how many columns a query has, about.
  std::size_t columns() const { return columns_; }

 private:
  std::size_t columns_ = 0;
  const std::size_t stride_;
  std::vector<std::uint16_t> distances_;  // [query][stride_]
};

}  // namespace warplite::cpu

// A pass of k-means over resident rows (compute/tally.h): the product finds the list of each, some
// hundred thousand rows at a time, rows are sorted by list, and a thread block adds up a list.
// Nothing of the rows crosses the bus. Threads, ownership: belongs to one search, with its lane.
#pragma once

#include <cstdint>

#include "compute/tally.h"
#include "gpu/ivf/tally.h"
#include "gpu/rows/row_set.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

class TallyPass {
 public:
  TallyPass(const Gpu& gpu, Lane& lane, const compute::TallyWork& work);

  // Throws Error{kUnsupported} where a product proves too little, or results are too large.
  void run(compute::ListTallies& out);

 private:
  // The lists of some rows.
  void assign(std::uint32_t first, std::uint32_t count, const TakeLists& to);
  // Compares every list with those rows of which the product could not prove a choice.
  void assign_lost(const TakeLists& lost);
  void sum(compute::ListTallies& out);
  // Sums of lists `first` … `end − 1`, to the GPU and back.
  struct SumSlots;
  void send_sums(const SumSlots& slots, const Arena& arena, std::uint32_t first, std::uint32_t end,
                 const compute::ListTallies& out);
  void fetch_sums(const SumSlots& slots, const Arena& arena, std::uint32_t first, std::uint32_t end,
                  compute::ListTallies& out);

  const Gpu& gpu_;
  Lane& lane_;
  const compute::TallyWork& work_;
  compute::Workload rows_work_;  // names the rows
  RowSet rows_;
  compute::Block centroids_;
  ListedRows listed_{};
  DeviceBytes norms_, lists_, distances_;
};

}  // namespace warplite::gpu

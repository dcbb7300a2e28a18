// The rows of all runs of a search through lists, as kernels see them. They are kept for the next search of
// the same rows (compute::IvfWork::rows): 100 million rows are 12,000 blocks, and to go over those takes longer
// than to search lists.
// Threads: any. Ownership: shared with searches; rowids are the engine's, which is told to keep them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compute/ivf.h"
#include "gpu/rows/row_set.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

class IvfRows {
 public:
  static std::shared_ptr<const IvfRows> of(const Gpu& gpu, Lane& lane, const compute::IvfWork& work);
  IvfRows(const Gpu& gpu, Lane& lane, const compute::IvfWork& work);
  IvfRows(const IvfRows&) = delete;
  IvfRows& operator=(const IvfRows&) = delete;

  const RowSet& rows() const { return rows_; }
  const RowTable& table() const { return table_; }

  const std::uint64_t key;  // compute::IvfWork::rows

 private:
  std::vector<compute::Block> blocks_;
  RowSet rows_;
  RowTable table_;
};

}  // namespace warplite::gpu

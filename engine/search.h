// Runs a search: chooses the device, has it hold the blocks, asks the column's index, streams what
// exceeds the memory budget. When a device fails, the CPU answers, unless the query insisted on
// that device. Results name (part, row) in Hit::block, Hit::row.
#pragma once

#include <cstddef>
#include <string>

#include "compute/ops.h"
#include "engine/device_choice.h"
#include "engine/filter.h"
#include "engine/view.h"
#include "index/index.h"

namespace warplite::engine {

struct SearchRequest {
  std::size_t column = 0;   // index into Layout::vectors
  Distance distance = Distance::kL2;
  MatrixView queries;       // of the column's type and dim; outlives the call
  DistanceRange range;
  bool has_after = false;   // see compute::Workload
  double after_distance = 0;
  RowId after_rowid = 0;
  std::string device;       // empty: the configured one
  compute::Cancellation* cancellation = nullptr;
};

// The k nearest selected rows of each query. k may exceed the number of rows.
compute::HitTable nearest(const View& view, const Selection& rows, const index::Index& index,
                          const SearchRequest& request, std::size_t k);
// All selected rows within the range, unordered.
compute::HitLists within(const View& view, const Selection& rows, const index::Index& index,
                         const SearchRequest& request);

}  // namespace warplite::engine

// The nearest centroid of many vectors (compute/ivf.h, AssignWork): the product that batches of
// queries have, with nothing but the answer on its way to the host.
#pragma once

#include "compute/ivf.h"
#include "gpu/rows/row_set.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

// Compares every list with query `query` of the work, whose rows are the lists: for what the product could not
// prove. `table` was uploaded on the lane.
void assign_by_scan(Lane& lane, const compute::Workload& work, const RowSet& rows,
                    const RowTable& table, std::uint32_t query, compute::Assigned& out);

// False: the product does not serve this, and nothing was done.
bool assign_lists(const Gpu& gpu, Lane& lane, const compute::AssignWork& work);

}  // namespace warplite::gpu

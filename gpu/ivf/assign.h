// The nearest centroid of many vectors (compute/ivf.h, AssignWork): the product that batches of
// queries have, with nothing but the answer on its way to the host.
#pragma once

#include "compute/ivf.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

// False: the product does not serve this, and nothing was done.
bool assign_lists(const Gpu& gpu, Lane& lane, const compute::AssignWork& work);

}  // namespace warplite::gpu

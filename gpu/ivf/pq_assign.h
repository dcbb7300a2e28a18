// Codes of vectors: the nearest codeword of every sub-space (compute/ivf.h, PqAssignWork).
#pragma once

#include "compute/ivf.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

void assign_codes(Lane& lane, const compute::PqAssignWork& work);

}  // namespace warplite::gpu

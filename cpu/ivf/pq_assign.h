// Codes of vectors on the CPU (compute/ivf.h).
#pragma once

#include "compute/ivf.h"

namespace warplite::cpu {

// Throws std::bad_alloc, and Error{kInterrupted} when cancelled.
void assign_codes(const compute::PqAssignWork& work);

}  // namespace warplite::cpu

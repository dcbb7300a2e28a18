// The nearest row of each group to each query (compute/host/host_kernels.h). With a few queries the float32
// product finds a near row of each group, whose canonical distance shows which others can be
// nearer (bounded_product.h); these are scored canonically, too. So the result is exact.
// Threads: any; it keeps no state.
#pragma once

#include "compute/host/host_kernels.h"

namespace warplite::cpu {

void nearest_in_groups(const compute::GroupedRows& work, double* out);

}  // namespace warplite::cpu

// Searches of sparse vectors on the CPU, see compute::Device::sparse_nearest and sparse_within.
// Threads, errors: as Device's operations, but errors are thrown.
#pragma once

#include "compute/sparse.h"

namespace warplite::cpu {

void search_sparse_nearest(const compute::SparseWork& work, compute::HitTable& best);
void search_sparse_within(const compute::SparseWork& work, compute::HitLists& out);

}  // namespace warplite::cpu

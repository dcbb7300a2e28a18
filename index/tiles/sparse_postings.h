// Makes the postings of the sparse vectors of a tile (compute/sparse/postings.h).
// Threads: functions of their arguments.
#pragma once

#include <cstdint>
#include <functional>

#include "core/bytes.h"
#include "core/column.h"

namespace warplite::index {

// Of all rows of a column of type kSparse, at most compute::kSparseRows, dead ones included. `poll`
// is asked now and then, and throws when not to go on. Throws Error{kLimit} beyond 2³² − 1 entries.
Bytes make_sparse_postings(const Column& values, const std::function<void()>& poll);

}  // namespace warplite::index

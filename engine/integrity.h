// Invariants across parts that no single block shows.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/collection.h"

namespace warplite::engine {

// Appends one sentence per fault, until there are `limit`: a rowid that is alive twice, live
// counts that disagree, a text key that does not lead to its row, codes that are not those of the
// vectors.
void check_view(const View& view, Collection& collection, std::size_t limit,
                compute::Cancellation* cancellation, std::vector<std::string>& faults);

}  // namespace warplite::engine

// Says whether a table with content= says of every row what the content table says.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/collection.h"

namespace warplite::engine {

// Appends one sentence per row that is missing, differs or is gone, until there are `limit`. Rows
// may be gone where triggers tell of changes too: searches pass those that went without a word
// (content_hits.h); without `vanished` they are no fault here either, and leave the index with the
// next write.
void check_content(const View& view, const Collection& collection, bool vanished,
                   std::size_t limit, compute::Cancellation* cancellation,
                   std::vector<std::string>& faults);

}  // namespace warplite::engine

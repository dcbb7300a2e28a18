// Whether a table with content= says of every row what the content table says.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/collection.h"

namespace warplite::engine {

// Appends one sentence per row that is missing, differs or is gone, until there are `limit`. Rows
// that are gone are none where changes are told: those that went without a word are passed over.
void check_content(const View& view, const Collection& collection, std::size_t limit,
                   compute::Cancellation* cancellation, std::vector<std::string>& faults);

}  // namespace warplite::engine

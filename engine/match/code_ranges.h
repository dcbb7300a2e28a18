// What the items of match-count queries ask of the codes of a part (column_codes.h): the values that
// match an item, as ranges of ranks. Items are tested on the distinct values, by the loops that test
// rows, so that they mean the same.
// Threads: any.
#pragma once

#include <vector>

#include "compute/codes.h"
#include "engine/match/column_codes.h"
#include "engine/match/item_set.h"
#include "engine/table/view.h"

namespace warplite::engine {

// Ascending, and apart from each other. `codes`: of the item's column in the part; where it has
// none, all codes or none match. REQUIRES: the item is not on rowids.
std::vector<compute::CodeRange> code_ranges(const ItemSet& items, std::size_t item,
                                            const Part& part, const ColumnCodes& codes);

}  // namespace warplite::engine

// A search of several tables that have the same column, as of one table with the rows of all.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compute/ops.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {

// Returns the column of the table that is named by parameters, dense or sparse, and that of each of
// the tables in `also`. Throws Error{kInvalid} for a table without such a column of this type and
// distance, and for a table that comes twice.
std::vector<SearchTarget> search_targets(Call& call, int table_parameter, int column_parameter,
                                         const std::vector<std::string>& also);

// What run_nearest() finds in one table with all of their rows, where every row is compared; where
// an index looks at a part of them, what it finds in each. REQUIRES: there is a target.
compute::HitTable run_nearest_of_all(const Call& call, const std::vector<SearchTarget>& targets,
                                     const std::byte* queries, std::size_t count, std::size_t k,
                                     const SearchOptions& options);

}  // namespace warplite::sql

// Range search of texts under edit distance, for the functions that do the same of vectors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compute/ops.h"
#include "sql/table_functions/search_target.h"
#include "sql/table_functions/texts/text_target.h"

namespace warplite::sql {

// The column, when it is a TEXT column that is searched by edit distance (distance=edit or
// index=ngram).
std::optional<TextTarget> edit_target(Call& call, int table_parameter, int column_parameter);

// The rows within `radius` of each query, in the order of results; one batch.
compute::HitLists run_texts_within(const Call& call, const TextTarget& target,
                                   const std::vector<std::string>& queries, double radius,
                                   const WorkOptions& options);

}  // namespace warplite::sql

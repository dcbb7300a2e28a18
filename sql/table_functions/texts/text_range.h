// Range search of texts under edit distance, for the functions that do the same of vectors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sql/table_functions/search_target.h"
#include "sql/table_functions/texts/text_target.h"

namespace warplite::sql {

// The column, when it is a TEXT column that is searched by edit distance (distance=edit or
// index=ngram).
std::optional<TextTarget> edit_target(Call& call, int table_parameter, int column_parameter);

// The rows within `radius` edits of each query.
std::unique_ptr<RangeSearch> text_range_search(const Call& call, const TextTarget& target,
                                               std::vector<std::string> queries, double radius,
                                               const WorkOptions& options);

}  // namespace warplite::sql

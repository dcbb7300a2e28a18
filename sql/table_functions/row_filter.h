// The option filter: a SQL expression over a table's columns, which says which rows are searched.
#pragma once

#include <memory>
#include <string>

#include "engine/filter/filter.h"
#include "sql/table_functions/table_function.h"

namespace warplite::sql {

// The rows of the table for which the expression is true, as SQLite itself finds them, by a
// statement of the connection's own; so it may be anything that a WHERE may. An empty one is no
// filter. REQUIRES: the function is direct_only, as is all that runs SQL of its caller's.
// Throws Error{kInvalid} for what is not one expression without parameters.
engine::Filter row_filter(const Call& call, const OpenTable& table, const std::string& expression);
// The rows of a view of the table for which it is true.
std::shared_ptr<const engine::Selection> selected_rows(const Call& call, const OpenTable& table,
                                                       const engine::View& view,
                                                       const std::string& expression);

}  // namespace warplite::sql

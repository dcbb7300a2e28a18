// (table, column [, options]) as table-valued functions name what they search.
#pragma once

#include <memory>
#include <string>

#include "engine/collection.h"
#include "engine/search.h"
#include "sql/table_functions/table_function.h"

namespace warplite::sql {

// A vector column of a warp table.
struct SearchTarget {
  std::shared_ptr<OpenTable> table;
  const ColumnDefinition* column;  // of table->definition

  Place place() const { return {table->definition.table, column->name}; }
};

// Throws Error{kInvalid} when there is no such table or vector column; it names those there are.
SearchTarget search_target(Call& call, int table_parameter, int column_parameter);

struct SearchOptions {
  std::string device;  // empty: the configured one
};

// A JSON object; NULL or absent: the defaults. An unknown key is an error.
SearchOptions search_options(const Call& call, int parameter);

// Dense queries of the target column's type, all in one batch.
compute::HitTable run_nearest(const Call& call, const SearchTarget& target,
                              const std::byte* queries, std::size_t count, std::size_t k,
                              const SearchOptions& options);
// Each query's hits within `radius`, in the order of results.
compute::HitLists run_within(const Call& call, const SearchTarget& target,
                             const std::byte* queries, std::size_t count, double radius);

}  // namespace warplite::sql

// Queries that come as one BLOB: q vectors, one after another without gaps, or sparse ones as a
// matrix (sql/definition/sparse_values.h).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sql/table_functions/search_target.h"

namespace warplite::sql {

// Vectors as run_nearest() takes them: the BLOB's own bytes, or `owned`. Valid while the call's
// arguments are.
struct QueryArray {
  std::size_t count = 0;
  const std::byte* vectors = nullptr;
  std::vector<std::byte> owned;
};

// Reads the BLOB in parameter `parameter`: for a sparse column a matrix; else vectors of the column's
// type or, where `type`, or else the BLOB's own mark (values.h), says so and the column's is a
// narrower real one, of float32. Throws Error{kInvalid} for anything else; it names the query, counted from 0, whose values are
// refused. REQUIRES: the parameter is not NULL.
QueryArray read_query_array(const Call& call, int parameter, const SearchTarget& target,
                            std::optional<ElementType> type);

// Reads the same, or text: a JSON array of arrays, each a vector as JSON.
QueryArray read_query_list(const Call& call, int parameter, const SearchTarget& target,
                           std::optional<ElementType> type);

}  // namespace warplite::sql

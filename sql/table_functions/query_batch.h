// The rows (id, vector) of a statement, as one batch of queries.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/value.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {

// Counts one more statement of a caller's within those that run, on the way to one that would
// contain itself. Throws Error{kInvalid} beyond four. `where`: the argument that has it.
class NestedQuery {
 public:
  NestedQuery(const Call& call, const std::string& where);
  ~NestedQuery() { --depth_; }
  NestedQuery(const NestedQuery&) = delete;
  NestedQuery& operator=(const NestedQuery&) = delete;

 private:
  int& depth_;
};

struct QueryBatch {
  std::vector<Value> ids;
  std::vector<std::byte> vectors;  // one per id, as run_nearest() takes them
};

// Runs the statement in parameter `parameter`: one SELECT, VALUES or WITH that only reads, has no
// parameters and returns two columns, (id, `query`). Calls take(id, query) for each row; rows whose
// query is NULL are skipped. Throws Error{kInvalid} for anything else, for statements nested more
// than four deep in one another, and, with the row named, for what take() refuses.
void each_query(const Call& call, int parameter, const std::string& query,
                const std::function<void(const Cell& id, sqlite3_value* query)>& take);

// The same for vectors.
QueryBatch read_queries(const Call& call, int parameter, const SearchTarget& target);

}  // namespace warplite::sql

// warp_knn_join(table, column, query_sql, k [, options]): the k nearest rows of every
// row (id, vector) of query_sql, searched as one batch.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/neighbors.h"
#include "sql/table_functions/query_batch.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kQuerySql, kK, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn, VectorColumns::kAll);
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  const SearchOptions options = search_options(call, Input::kOptions);
  QueryBatch batch = read_queries(call, Input::kQuerySql, target);
  if (batch.ids.empty()) return nullptr;
  compute::HitTable table =
      run_nearest(call, target, batch.vectors.data(), batch.ids.size(), k, options);
  return JoinedNeighbors::rows(std::move(batch.ids), std::move(table));
}

}  // namespace

const TableFunction kKnnJoin{
    .name = "warp_knn_join",
    .columns = JoinedNeighbors::kColumns,
    .column_count = JoinedNeighbors::kCount,
    .parameters = {{"table"}, {"column"}, {"query_sql"}, {"k"}, {"options", false}},
    .run = run,
    .estimated_rows = 100000,
    .direct_only = true,
};

}  // namespace warplite::sql

// warp_knn_search(table, column, query, k [, options]): the k rows nearest to a query.
#include "sql/definition/sparse_values.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/neighbors.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kQuery, kK, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn, VectorColumns::kAll);
  if (call.is_null(Input::kQuery)) return nullptr;
  const VectorInput query = column_vector(call.value(Input::kQuery), *target.column, target.place());
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  compute::HitTable table =
      run_nearest(call, target, query.data, 1, k, search_options(call, Input::kOptions));
  return Neighbors::rows(table.list(0));
}

}  // namespace

const TableFunction kKnnSearch{
    .name = "warp_knn_search",
    .columns = Neighbors::kColumns,
    .column_count = Neighbors::kCount,
    .parameters = {{"table"}, {"column"}, {"query"}, {"k"}, {"options", false}},
    .run = run,
    .orders = Neighbors::orders(),
};

}  // namespace warplite::sql

// warp_ivfpq_search(table, column, query, k [, nprobe [, options]]): the k rows nearest to a query
// through the column's index, ivfpq or ivfflat. Until that is trained, every row is compared.
#include "engine/search/searcher.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/neighbors.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kQuery, kK, kNprobe, kOptions };
};

void require_lists(const Call& call, const SearchTarget& target) {
  const engine::Searcher* const searcher = engine::searcher_of(index_of(target));
  if (searcher != nullptr && searcher->has_lists()) return;
  throw Error(ErrorKind::kInvalid, std::string(call.function()) + ": " + target.place().text() +
                                       " needs index=" + engine::kinds_with_lists() +
                                       ", but has index=" + target.column->index.kind);
}

std::unique_ptr<Rows> run(Call& call) {
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn);
  require_lists(call, target);
  if (call.is_null(Input::kQuery)) return nullptr;
  const VectorInput query = vector_for_column(call.value(Input::kQuery), target.column->element,
                                              target.column->dim, target.place());
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  SearchOptions options = search_options(call, Input::kOptions);
  if (!call.is_null(Input::kNprobe)) {
    options.nprobe =
        static_cast<std::uint32_t>(call.count(Input::kNprobe, 1, engine::kMostProbes));
  }
  return Neighbors::rows(run_nearest(call, target, query.data, 1, k, options).list(0));
}

}  // namespace

const TableFunction kIvfpqSearch{
    .name = "warp_ivfpq_search",
    .columns = Neighbors::kColumns,
    .column_count = Neighbors::kCount,
    .parameters = {{"table"}, {"column"}, {"query"}, {"k"}, {"nprobe", false}, {"options", false}},
    .run = run,
    .orders = Neighbors::orders(),
};

}  // namespace warplite::sql

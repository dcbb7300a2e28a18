// warp_match_count(table, query_json, k [, options]): the k rows that match most items of a query
// such as {"age":[25,35], "sex":"Male"} (sql/definition/match_query.h).
#include "sql/definition/match_query.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/match_counts.h"
#include "sql/table_functions/neighbors.h"
#include "sql/table_functions/row_filter.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kQuery, kK, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  const std::shared_ptr<OpenTable> table = call.table(Input::kTable);
  if (call.is_null(Input::kQuery)) return nullptr;
  const engine::RelationalQuery query =
      MatchQueryReader(table->definition).read(cell_of(call.value(Input::kQuery)));
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  compute::HitTable hits = MatchCounts(call, *table, Input::kOptions).best({&query, 1}, k);
  return Neighbors::rows(hits.list(0), Score::kMatches);
}

}  // namespace

MatchCounts::MatchCounts(const Call& call, const OpenTable& table, int options)
    : options_(work_options(call, options)),
      interrupt_(call.context().db()),
      view_(table.collection->view()),
      selection_(*view_, row_filter(call, table, options_.filter)) {
  request_.device = options_.device;
  request_.cancellation = &interrupt_;
}

compute::HitTable MatchCounts::best(std::span<const engine::RelationalQuery> queries,
                                    std::size_t k) const {
  return engine::most_matches(*view_, selection_, queries, k, request_);
}

const TableFunction kMatchCount{
    .name = "warp_match_count",
    .columns = "rowid INTEGER, matches INTEGER, rank INTEGER",
    .column_count = Neighbors::kCount,
    .parameters = {{"table"}, {"query_json"}, {"k"}, {"options", false}},
    .run = run,
    .orders = {{Neighbors::kRank}},
};

}  // namespace warplite::sql

// warp_match_join(table, query_sql, k [, options]): for every row (id, query_json) of query_sql, the
// k rows that match most of its items, counted as one batch.
#include "sql/definition/match_query.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/match_counts.h"
#include "sql/table_functions/neighbors.h"
#include "sql/table_functions/query_batch.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kQuerySql, kK, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  const std::shared_ptr<OpenTable> table = call.table(Input::kTable);
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  device_option(call, Input::kOptions);  // wrong ones are errors even if there is no query
  MatchQueryReader reader(table->definition);
  std::vector<Value> ids;
  std::vector<engine::RelationalQuery> queries;
  each_query(call, Input::kQuerySql, "query_json",
             [&](const Cell& id, sqlite3_value* query) {
               queries.push_back(reader.read(cell_of(query)));
               ids.emplace_back(id);
             });
  if (ids.empty()) return nullptr;
  compute::HitTable hits = run_match_count(call, *table, queries, k, Input::kOptions);
  return JoinedNeighbors::rows(std::move(ids), std::move(hits), Score::kMatches);
}

}  // namespace

const TableFunction kMatchJoin{
    .name = "warp_match_join",
    .columns = "query_id, rowid INTEGER, matches INTEGER, rank INTEGER",
    .column_count = JoinedNeighbors::kCount,
    .parameters = {{"table"}, {"query_sql"}, {"k"}, {"options", false}},
    .run = run,
    .estimated_rows = 100000,
    .direct_only = true,
};

}  // namespace warplite::sql

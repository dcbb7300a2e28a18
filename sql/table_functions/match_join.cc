// warp_match_join(table, query_sql, k [, options]): for every row (id, query_json) of query_sql, the
// k rows that match most of its items, counted many at a time: what queries are made of takes more
// memory than what they are answered with.
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

// Queries that are counted together, and items of theirs.
constexpr std::size_t kQueriesOfBatch = 8192;
constexpr std::size_t kItemsOfBatch = std::size_t{1} << 17;

class Join {
 public:
  Join(const Call& call, const OpenTable& table, std::size_t k)
      : counts_(call, table, Input::kOptions), k_(k) {}

  void add(const Cell& id, engine::RelationalQuery query) {
    items_ += query.size();
    queries_.push_back(std::move(query));
    ids_.emplace_back(id);
    if (queries_.size() == kQueriesOfBatch || items_ >= kItemsOfBatch) answer();
  }
  std::unique_ptr<Rows> rows() {
    answer();
    compute::HitTable hits(ids_.size(), k_);
    std::size_t first = 0;
    for (compute::HitTable& some : best_) {
      const std::size_t queries = some.queries();
      hits.merge(std::move(some), first);
      first += queries;
    }
    return JoinedNeighbors::rows(std::move(ids_), std::move(hits), Score::kMatches);
  }

 private:
  void answer() {
    if (queries_.empty()) return;
    best_.push_back(counts_.best(queries_, k_));
    queries_.clear();
    items_ = 0;
  }

  const MatchCounts counts_;
  std::vector<Value> ids_;
  const std::size_t k_;
  std::vector<compute::HitTable> best_;  // of those that are answered
  // Queries that are not answered yet.
  std::vector<engine::RelationalQuery> queries_;
  std::size_t items_ = 0;
};

std::unique_ptr<Rows> run(Call& call) {
  const std::shared_ptr<OpenTable> table = call.table(Input::kTable);
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  MatchQueryReader reader(table->definition);
  Join join(call, *table, k);
  each_query(call, Input::kQuerySql, "query_json", [&](const Cell& id, sqlite3_value* query) {
    join.add(id, reader.read(cell_of(query)));
  });
  return join.rows();
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

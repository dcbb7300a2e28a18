// warp_range_join(table, column, query_sql, radius): for every row (id, vector) of
// query_sql, the rows within the radius, searched as one batch.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/query_batch.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kQueryId, kRowId, kDistance, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kQuerySql, kRadius };
};

class JoinedWithin : public Rows {
 public:
  JoinedWithin(std::vector<Value> ids, compute::HitLists lists)
      : ids_(std::move(ids)), lists_(std::move(lists)) {}

  bool next() override {
    ++hit_;
    while (query_ < lists_.size() && hit_ >= lists_[query_].size() + 1) {
      ++query_;
      hit_ = 1;
    }
    return query_ < lists_.size();
  }
  bool rewind() override {
    query_ = 0;
    hit_ = 0;
    return true;
  }

  void column(sqlite3_context* context, int column) const override {
    const Hit& hit = lists_[query_][hit_ - 1];
    switch (column) {
      case Output::kQueryId: result_cell(context, ids_[query_].cell()); break;
      case Output::kRowId: sqlite3_result_int64(context, hit.rowid); break;
      case Output::kDistance: sqlite3_result_double(context, hit.distance); break;
    }
  }

 private:
  std::vector<Value> ids_;
  compute::HitLists lists_;
  std::size_t query_ = 0;
  std::size_t hit_ = 0;  // from 1, within the query
};

std::unique_ptr<Rows> run(Call& call) {
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn);
  const double radius = call.real(Input::kRadius);
  QueryBatch batch = read_queries(call, Input::kQuerySql, target);
  if (batch.ids.empty()) return nullptr;
  compute::HitLists lists =
      run_within(call, target, batch.vectors.data(), batch.ids.size(), radius);
  return std::make_unique<JoinedWithin>(std::move(batch.ids), std::move(lists));
}

}  // namespace

const TableFunction kRangeJoin{
    .name = "warp_range_join",
    .columns = "query_id, rowid INTEGER, distance REAL",
    .column_count = Output::kCount,
    .parameters = {{"table"}, {"column"}, {"query_sql"}, {"radius"}},
    .run = run,
    .estimated_rows = 100000,
    .direct_only = true,
};

}  // namespace warplite::sql

// warp_knn_join(table, column, query_sql, k [, options]): the k nearest rows of every
// row (id, vector) of query_sql, searched as one batch.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/hit_order.h"
#include "sql/table_functions/query_batch.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kQueryId, kRowId, kDistance, kRank, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kQuerySql, kK, kOptions };
};

class JoinedNeighbors final : public Rows {
 public:
  JoinedNeighbors(std::vector<Value> ids, compute::HitTable table)
      : ids_(std::move(ids)), table_(std::move(table)) {}

  bool next() override {
    if (hit_ != end_ && ++hit_ != end_) return true;
    return next_query();
  }
  bool rewind() override {
    first_ = hit_ = end_ = nullptr;
    started_ = 0;
    return true;
  }

  void column(sqlite3_context* context, int column) const override {
    switch (column) {
      case Output::kQueryId: result_cell(context, id_); break;
      case Output::kRowId: sqlite3_result_int64(context, hit_->rowid); break;
      case Output::kDistance: sqlite3_result_double(context, hit_->distance); break;
      case Output::kRank: sqlite3_result_int64(context, hit_ - first_ + 1); break;
    }
  }

 private:
  // Goes to the first hit of the next query that has any.
  bool next_query() {
    while (started_ < ids_.size()) {
      if (started_ == sorted_) sorted_ = sort_ahead(table_, sorted_);
      const std::vector<Hit>& hits = table_.sorted(started_);
      id_ = ids_[started_++].cell();
      first_ = hit_ = hits.data();
      end_ = first_ + hits.size();
      if (hit_ != end_) return true;
    }
    first_ = hit_ = end_ = nullptr;
    return false;
  }

  std::vector<Value> ids_;
  compute::HitTable table_;
  std::size_t sorted_ = 0;   // queries whose hits are in order
  std::size_t started_ = 0;  // queries
  // Of query started_ - 1.
  Cell id_;
  const Hit* first_ = nullptr;
  const Hit* hit_ = nullptr;
  const Hit* end_ = nullptr;
};

std::unique_ptr<Rows> run(Call& call) {
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn);
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  const SearchOptions options = search_options(call, Input::kOptions);
  QueryBatch batch = read_queries(call, Input::kQuerySql, target);
  if (batch.ids.empty()) return nullptr;
  compute::HitTable table =
      run_nearest(call, target, batch.vectors.data(), batch.ids.size(), k, options);
  return std::make_unique<JoinedNeighbors>(std::move(batch.ids), std::move(table));
}

}  // namespace

const TableFunction kKnnJoin{
    .name = "warp_knn_join",
    .columns = "query_id, rowid INTEGER, distance REAL, rank INTEGER",
    .column_count = Output::kCount,
    .parameters = {{"table"}, {"column"}, {"query_sql"}, {"k"}, {"options", false}},
    .run = run,
    .estimated_rows = 100000,
    .direct_only = true,
};

}  // namespace warplite::sql

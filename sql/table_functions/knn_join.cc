// warp_knn_join(table, column, query_sql, k [, options]): the k nearest rows of every
// row (id, vector) of query_sql, searched as one batch.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/query_batch.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kQueryId, kRowId, kDistance, kRank, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kQuerySql, kK, kOptions };
};

class JoinedNeighbors : public Rows {
 public:
  JoinedNeighbors(std::vector<Value> ids, compute::HitTable table)
      : ids_(std::move(ids)), table_(std::move(table)) {}

  bool next() override {
    if (hits_ != nullptr && ++rank_ <= hits_->size()) return true;
    rank_ = 1;
    while (started_ < ids_.size()) {
      hits_ = &table_.sorted(started_++);
      if (!hits_->empty()) return true;
    }
    hits_ = nullptr;
    return false;
  }
  bool rewind() override {
    hits_ = nullptr;
    started_ = 0;
    return true;
  }

  void column(sqlite3_context* context, int column) const override {
    const Hit& hit = (*hits_)[rank_ - 1];
    switch (column) {
      case Output::kQueryId: result_cell(context, ids_[started_ - 1].cell()); break;
      case Output::kRowId: sqlite3_result_int64(context, hit.rowid); break;
      case Output::kDistance: sqlite3_result_double(context, hit.distance); break;
      case Output::kRank: sqlite3_result_int64(context, static_cast<sqlite3_int64>(rank_)); break;
    }
  }

 private:
  std::vector<Value> ids_;
  compute::HitTable table_;
  const std::vector<Hit>* hits_ = nullptr;  // of query started_ - 1
  std::size_t started_ = 0;
  std::size_t rank_ = 0;  // from 1
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

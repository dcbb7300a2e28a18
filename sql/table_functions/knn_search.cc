// warp_knn_search(table, column, query, k [, options]): the k rows nearest to a query.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kRowId, kDistance, kRank, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kQuery, kK, kOptions };
};

class Neighbors : public Rows {
 public:
  explicit Neighbors(std::vector<Hit> hits) : hits_(std::move(hits)) {}

  bool next() override { return ++rank_ <= hits_.size(); }
  bool rewind() override {
    rank_ = 0;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    const Hit& hit = hits_[rank_ - 1];
    switch (column) {
      case Output::kRowId: sqlite3_result_int64(context, hit.rowid); break;
      case Output::kDistance: sqlite3_result_double(context, hit.distance); break;
      case Output::kRank: sqlite3_result_int64(context, static_cast<sqlite3_int64>(rank_)); break;
    }
  }

 private:
  std::vector<Hit> hits_;
  std::size_t rank_ = 0;  // from 1
};

std::unique_ptr<Rows> run(Call& call) {
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn);
  if (call.is_null(Input::kQuery)) return nullptr;
  const VectorInput query = vector_for_column(call.value(Input::kQuery), target.column->element,
                                              target.column->dim, target.place());
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  compute::HitTable table =
      run_nearest(call, target, query.data, 1, k, search_options(call, Input::kOptions));
  return std::make_unique<Neighbors>(table.sorted(0));
}

}  // namespace

const TableFunction kKnnSearch{
    .name = "warp_knn_search",
    .columns = "rowid INTEGER, distance REAL, rank INTEGER",
    .column_count = Output::kCount,
    .parameters = {{"table"}, {"column"}, {"query"}, {"k"}, {"options", false}},
    .run = run,
    .orders = {{Output::kRank},
               {Output::kDistance, Output::kRowId},
               {Output::kDistance, Output::kRank}},
};

}  // namespace warplite::sql

// warp_range_join(table, column, query_sql, radius [, options]): for every row (id, vector) of
// query_sql, the rows within the radius, searched as one batch; or for every row (id, text), under
// edit distance.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/query_batch.h"
#include "sql/table_functions/texts/text_range.h"
#include "sql/table_functions/texts/text_rows.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kQueryId, kRowId, kDistance, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kQuerySql, kRadius, kOptions };
};

class JoinedWithin final : public Rows {
 public:
  JoinedWithin(std::vector<Value> ids, compute::HitLists lists)
      : ids_(std::move(ids)), lists_(std::move(lists)) {}

  bool next() override {
    if (hit_ != end_ && ++hit_ != end_) return true;
    return next_query();
  }
  bool rewind() override {
    hit_ = end_ = nullptr;
    started_ = 0;
    return true;
  }

  void column(sqlite3_context* context, int column) const override {
    switch (column) {
      case Output::kQueryId: result_cell(context, id_); break;
      case Output::kRowId: sqlite3_result_int64(context, hit_->rowid); break;
      case Output::kDistance: sqlite3_result_double(context, hit_->distance); break;
    }
  }

 private:
  // Goes to the first hit of the next query that has any.
  bool next_query() {
    while (started_ < lists_.size()) {
      const std::vector<Hit>& hits = lists_[started_];
      id_ = ids_[started_++].cell();
      hit_ = hits.data();
      end_ = hit_ + hits.size();
      if (hit_ != end_) return true;
    }
    hit_ = end_ = nullptr;
    return false;
  }

  std::vector<Value> ids_;
  compute::HitLists lists_;
  std::size_t started_ = 0;  // queries
  // State of query started_ - 1.
  Cell id_;
  const Hit* hit_ = nullptr;
  const Hit* end_ = nullptr;
};

std::unique_ptr<Rows> run_texts(Call& call, const TextTarget& target) {
  const double radius = call.real(Input::kRadius);
  const WorkOptions options = work_options(call, Input::kOptions);
  TextQueries queries = read_texts(call, Input::kQuerySql);
  if (queries.ids.empty()) return nullptr;
  compute::HitLists lists = run_texts_within(call, target, queries.texts, radius, options);
  return std::make_unique<JoinedWithin>(std::move(queries.ids), std::move(lists));
}

std::unique_ptr<Rows> run(Call& call) {
  if (const std::optional<TextTarget> texts =
          edit_target(call, Input::kTable, Input::kColumn)) {
    return run_texts(call, *texts);
  }
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn, VectorColumns::kAll);
  const double radius = call.real(Input::kRadius);
  const SearchOptions options = search_options(call, Input::kOptions);
  QueryBatch batch = read_queries(call, Input::kQuerySql, target);
  if (batch.ids.empty()) return nullptr;
  compute::HitLists lists =
      run_within(call, target, batch.vectors.data(), batch.ids.size(), radius, options);
  return std::make_unique<JoinedWithin>(std::move(batch.ids), std::move(lists));
}

}  // namespace

const TableFunction kRangeJoin{
    .name = "warp_range_join",
    .columns = "query_id, rowid INTEGER, distance REAL",
    .column_count = Output::kCount,
    .parameters = {{"table"}, {"column"}, {"query_sql"}, {"radius"}, {"options", false}},
    .run = run,
    .estimated_rows = 100000,
    .direct_only = true,
};

}  // namespace warplite::sql

// warp_range_join(table, column, query_sql, radius [, options]): for every row (id, vector) of
// query_sql, the rows within the radius; or for every row (id, text), under edit distance. Queries are
// answered some at a time, as rows are asked for: so memory stays bounded, however many rows there are within
// the radius, and a LIMIT ends the work.
#include <algorithm>

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

// Hits that are in memory at a time, about; queries of the first batch, which tell how many hits there are.
constexpr std::size_t kHitsOfBatch = std::size_t{1} << 21;
constexpr std::size_t kFirstBatch = 256, kLeastBatch = 16;

class JoinedWithin final : public Rows {
 public:
  JoinedWithin(std::vector<Value> ids, std::unique_ptr<RangeSearch> search)
      : ids_(std::move(ids)), search_(std::move(search)) {}

  bool next() override {
    if (hit_ != end_ && ++hit_ != end_) return true;
    return next_query();
  }
  bool rewind() override {
    if (first_ != 0) lists_.clear();
    first_ = started_ = 0;
    hit_ = end_ = nullptr;
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
    hit_ = end_ = nullptr;
    while (started_ < ids_.size()) {
      if (started_ == first_ + lists_.size()) answer_more();
      const std::vector<Hit>& hits = lists_[started_ - first_];
      id_ = ids_[started_++].cell();
      hit_ = hits.data();
      end_ = hit_ + hits.size();
      if (hit_ != end_) return true;
    }
    return false;
  }

  void answer_more() {
    std::size_t batch = kFirstBatch;
    if (!lists_.empty()) {
      std::size_t hits = 1;
      for (const std::vector<Hit>& list : lists_) hits += list.size();
      batch = std::max(kLeastBatch, kHitsOfBatch * lists_.size() / hits);
    }
    lists_.clear();  // before there are others
    first_ = started_;
    lists_ = search_->answer(first_, std::min(ids_.size(), first_ + batch));
  }

  const std::vector<Value> ids_;
  const std::unique_ptr<RangeSearch> search_;
  compute::HitLists lists_;  // of queries first_ …
  std::size_t first_ = 0, started_ = 0;
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
  std::unique_ptr<RangeSearch> search =
      text_range_search(call, target, std::move(queries.texts), radius, options);
  return std::make_unique<JoinedWithin>(std::move(queries.ids), std::move(search));
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
  std::unique_ptr<RangeSearch> search =
      range_search(call, target, std::move(batch.vectors), batch.ids.size(), radius, options);
  return std::make_unique<JoinedWithin>(std::move(batch.ids), std::move(search));
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

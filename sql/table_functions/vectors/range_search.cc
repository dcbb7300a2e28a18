// warp_range_search(table, column, query, radius [, options]): every row within the radius, of a
// vector, or of a text under edit distance.
#include "sql/definition/sparse_values.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/search_target.h"
#include "sql/table_functions/texts/text_range.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kRowId, kDistance, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kQuery, kRadius, kOptions };
};

class RowsWithin : public Rows {
 public:
  explicit RowsWithin(std::vector<Hit> hits) : hits_(std::move(hits)) {}

  bool next() override { return ++returned_ <= hits_.size(); }
  bool rewind() override {
    returned_ = 0;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    const Hit& hit = hits_[returned_ - 1];
    if (column == Output::kRowId) {
      sqlite3_result_int64(context, hit.rowid);
    } else {
      sqlite3_result_double(context, hit.distance);
    }
  }

 private:
  std::vector<Hit> hits_;
  std::size_t returned_ = 0;
};

std::unique_ptr<Rows> rows_within(RangeSearch& search) {
  return std::make_unique<RowsWithin>(std::move(search.answer(0, 1)[0]));
}

std::unique_ptr<Rows> run(Call& call) {
  if (const std::optional<TextTarget> texts =
          edit_target(call, Input::kTable, Input::kColumn)) {
    if (call.is_null(Input::kQuery)) return nullptr;
    return rows_within(*text_range_search(call, *texts, {query_text(call, Input::kQuery)},
                                          call.real(Input::kRadius),
                                          work_options(call, Input::kOptions)));
  }
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn, VectorColumns::kAll);
  if (call.is_null(Input::kQuery)) return nullptr;
  const VectorInput query = column_vector(call.value(Input::kQuery), *target.column, target.place());
  return rows_within(*range_search(call, target, {query.data, query.data + query.size}, 1,
                                   call.real(Input::kRadius), search_options(call, Input::kOptions)));
}

}  // namespace

const TableFunction kRangeSearch{
    .name = "warp_range_search",
    .columns = "rowid INTEGER, distance REAL",
    .column_count = Output::kCount,
    .parameters = {{"table"}, {"column"}, {"query"}, {"radius"}, {"options", false}},
    .run = run,
    .orders = {{Output::kDistance, Output::kRowId}},
};

}  // namespace warplite::sql

// warp_knn_arrays(table, column, queries, k [, options]): the k rows nearest to each of many
// queries, as one row of arrays. No row is stepped: programs that hold arrays take them as they are.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "sql/host/shared_blob.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/hit_order.h"
#include "sql/table_functions/joint_search.h"
#include "sql/table_functions/query_array.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kQueries, kK, kRowIds, kDistances, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kQueries, kK, kOptions };
};

// k places a query, nearest first; the places that no hit takes are −1 and NaN.
class Arrays final : public Rows {
 public:
  Arrays(compute::HitTable table, std::size_t k)
      : queries_(table.queries()),
        k_(k),
        rowids_(queries_ * k * sizeof(RowId)),
        distances_(queries_ * k * sizeof(double)) {
    const std::span<RowId> rowids = rowids_.as<RowId>();
    const std::span<double> distances = distances_.as<double>();
    each_sorted(table, 0, queries_, [&](std::size_t query, std::span<const Hit> hits) {
      const std::size_t first = query * k;
      for (std::size_t i = 0; i < hits.size(); ++i) {
        rowids[first + i] = hits[i].rowid;
        distances[first + i] = hits[i].distance;
      }
      const auto none = rowids.subspan(first, k).subspan(hits.size());
      const auto nan = distances.subspan(first, k).subspan(hits.size());
      std::fill(none.begin(), none.end(), RowId{-1});
      std::fill(nan.begin(), nan.end(), std::numeric_limits<double>::quiet_NaN());
    });
  }

  bool next() override { return !std::exchange(shown_, true); }
  bool rewind() override {
    shown_ = false;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    switch (column) {
      case Output::kQueries:
        sqlite3_result_int64(context, static_cast<sqlite3_int64>(queries_));
        break;
      case Output::kK: sqlite3_result_int64(context, static_cast<sqlite3_int64>(k_)); break;
      case Output::kRowIds: rowids_.result(context); break;
      case Output::kDistances: distances_.result(context); break;
    }
  }

 private:
  std::size_t queries_;
  std::size_t k_;
  SharedBlob rowids_;
  SharedBlob distances_;
  bool shown_ = false;
};

// SQLite has a limit on the length of values, which is asked before anything is searched.
void check_length(const Call& call, std::size_t queries, std::size_t k) {
  const int most = sqlite3_limit(call.context().db(), SQLITE_LIMIT_LENGTH, -1);
  if (queries == 0) return;
  const std::size_t most_k = static_cast<std::size_t>(most) / sizeof(RowId) / queries;
  if (k <= most_k) return;
  call.refuse(Input::kK, "at most " + std::to_string(most_k) + " for " + std::to_string(queries) +
                             " queries, since values of this connection have at most " +
                             std::to_string(most) + " bytes (SQLITE_LIMIT_LENGTH)");
}

std::unique_ptr<Rows> run(Call& call) {
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  const SearchOptions options = array_options(call, Input::kOptions);
  const std::vector<SearchTarget> targets =
      search_targets(call, Input::kTable, Input::kColumn, options.also);
  const SearchTarget& target = targets.front();
  if (call.is_null(Input::kQueries)) return nullptr;
  const QueryArray queries = read_query_array(call, Input::kQueries, target, options.type);
  check_length(call, queries.count, k);
  if (queries.count == 0) return std::make_unique<Arrays>(compute::HitTable(0, 0), k);
  return std::make_unique<Arrays>(
      run_nearest_of_all(call, targets, queries.vectors, queries.count, k, options), k);
}

}  // namespace

const TableFunction kKnnArrays{
    .name = "warp_knn_arrays",
    .columns = "queries INTEGER, k INTEGER, rowids BLOB, distances BLOB",
    .column_count = Output::kCount,
    .parameters = {{"table"},
                   {"column"},
                   {"queries", true, "given_queries"},
                   {"k", true, "given_k"},
                   {"options", false}},
    .run = run,
    .estimated_rows = 1,
    .direct_only = true,
};

}  // namespace warplite::sql

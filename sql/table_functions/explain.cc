// warp_explain(): what the last search of this connection by vectors or by edit distance has done.
// `pairs` are selected rows times queries; `indexed` those that were searched through a metric
// index, the rest by brute force; `distances` were evaluated, on the way to both; `clusters` were
// visited, or, under pivots, rows were left over by them. What lists, signatures or postings answered
// alone has none of these.
#include "engine/search/search_report.h"
#include "engine/search/searcher.h"

#include "sql/table_functions/functions.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kTable, kColumn, kIndex, kMethod, kQueries, kPairs, kIndexed, kDistances, kClusters,
               kCount };
};

// Names the index of another kind that a column's search was answered by: "approximate index" or
// "index"; else null.
const char* answered_alone(const engine::SearchReport& report) {
  if (report.rows != 0 || report.queries == 0) return nullptr;
  if (engine::searcher_of(report.index) != nullptr) return "approximate index";
  for (const char* kind : {"ngram", "words"}) {
    if (report.index == kind) return "index";
  }
  return nullptr;
}

const char* method(const engine::SearchReport& report) {
  if (const char* const alone = answered_alone(report)) return alone;
  const std::uint64_t indexed = report.counters.indexed;
  if (indexed == 0) return "brute force";
  return indexed >= report.rows ? "index" : "index and brute force";
}

class LastSearch : public Rows {
 public:
  explicit LastSearch(std::shared_ptr<const engine::SearchReport> report)
      : report_(std::move(report)) {}

  bool next() override { return report_ != nullptr && ++returned_ == 1; }
  void column(sqlite3_context* context, int column) const override {
    const engine::SearchReport& report = *report_;
    const auto number = [context](std::uint64_t value) {
      sqlite3_result_int64(context, static_cast<sqlite3_int64>(value));
    };
    if (column >= Output::kPairs && answered_alone(report) != nullptr) {
      return sqlite3_result_null(context);
    }
    switch (column) {
      case Output::kTable: return result_cell(context, Cell::text(report.table));
      case Output::kColumn: return result_cell(context, Cell::text(report.column));
      case Output::kIndex: return result_cell(context, Cell::text(report.index));
      case Output::kMethod: return result_cell(context, Cell::text(method(report)));
      case Output::kQueries: return number(report.queries);
      case Output::kPairs: return number(report.rows);
      case Output::kIndexed: return number(report.counters.indexed);
      case Output::kDistances: return number(report.counters.distances);
      case Output::kClusters: return number(report.counters.clusters);
    }
  }

 private:
  const std::shared_ptr<const engine::SearchReport> report_;
  int returned_ = 0;
};

std::unique_ptr<Rows> run(Call& call) {
  return std::make_unique<LastSearch>(call.context().last_report());
}

}  // namespace

const TableFunction kExplain{
    .name = "warp_explain",
    .columns = "table_name TEXT, column_name TEXT, index_kind TEXT, method TEXT, queries INTEGER, "
               "pairs INTEGER, indexed INTEGER, distances INTEGER, clusters INTEGER",
    .column_count = Output::kCount,
    .parameters = {},
    .run = run,
};

}  // namespace warplite::sql

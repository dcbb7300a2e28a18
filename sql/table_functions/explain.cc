// warp_explain(): what the last search of this connection by vectors or by edit distance has done; of
// a hybrid search, what each source has, of which one that is a table of FTS5 has no column.
// `pairs` are selected rows times queries; `indexed` those that were searched through a metric
// index, the rest by brute force; `distances` were evaluated, on the way to both; `clusters` were
// visited, or, under pivots, rows were left over by them. What lists, signatures or postings answered
// alone has none of these; with rows that they have no codes of, these are of such rows. `nprobe` lists
// were looked into at most, `refine` times k vectors compared; `expected_recall` is what training has
// measured.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/search/search_report.h"
#include "sql/table_functions/functions.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kTable, kColumn, kIndex, kMethod, kQueries, kPairs, kIndexed, kDistances, kClusters,
               kNprobe, kRefine, kExpectedRecall, kCount };
};

bool by_postings(const engine::SearchReport& report) {
  return report.index == "ngram" || report.index == "words" || report.index == "fts5";
}

// Says whether nothing but an index of another kind has answered.
bool answered_alone(const engine::SearchReport& report) {
  return report.rows == 0 && report.queries != 0 && (report.approximate || by_postings(report));
}

std::string method(const engine::SearchReport& report) {
  const std::uint64_t indexed = report.counters.indexed;
  if (answered_alone(report) && !report.approximate) return "index";
  std::string method = report.approximate ? "approximate index" : "";
  if (report.recall_unknown) method += " (its recall was not measured when it was trained)";
  if (report.recall_fell) method += " (it learnt from rows unlike these: optimize has it learn again)";
  if (answered_alone(report)) return method;
  if (report.approximate) return method + " and brute force";
  if (report.out_of_time) {
    return "brute force (not trained: it took longer than training_seconds; INSERT INTO " + report.table + "(" +
           report.table + ") VALUES('train') learns now)";
  }
  return indexed == 0 ? "brute force" : indexed >= report.rows ? "index" : "index and brute force";
}

// What is compared row by row is found; of postings nobody asks.
std::optional<double> expected_recall(const engine::SearchReport& report) {
  if (report.approximate) return report.expected_recall;
  return by_postings(report) ? std::nullopt : std::optional(1.0);
}

class LastSearch : public Rows {
 public:
  using Reports = std::vector<std::shared_ptr<const engine::SearchReport>>;
  explicit LastSearch(const Reports& reports) : reports_(reports) {}

  bool next() override { return ++returned_ <= reports_.size(); }
  void column(sqlite3_context* context, int column) const override {
    const engine::SearchReport& report = *reports_[returned_ - 1];
    const auto number = [context](std::uint64_t value) {
      sqlite3_result_int64(context, static_cast<sqlite3_int64>(value));
    };
    const bool of_pairs = column >= Output::kPairs && column <= Output::kClusters;
    if (of_pairs && answered_alone(report)) return sqlite3_result_null(context);
    switch (column) {
      case Output::kTable: return result_cell(context, Cell::text(report.table));
      case Output::kColumn:
        return report.column.empty() ? void() : result_cell(context, Cell::text(report.column));
      case Output::kIndex: return result_cell(context, Cell::text(report.index));
      case Output::kMethod: return result_cell(context, Cell::text(method(report)));
      case Output::kQueries: return number(report.queries);
      case Output::kPairs: return number(report.rows);
      case Output::kIndexed: return number(report.counters.indexed);
      case Output::kDistances: return number(report.counters.distances);
      case Output::kClusters: return number(report.counters.clusters);
      case Output::kNprobe: return report.nprobe != 0 ? number(report.nprobe) : void();
      case Output::kRefine: return report.refine ? number(*report.refine) : void();
      case Output::kExpectedRecall:
        if (const auto recall = expected_recall(report)) sqlite3_result_double(context, *recall);
    }
  }

 private:
  const Reports reports_;
  std::size_t returned_ = 0;
};

std::unique_ptr<Rows> run(Call& call) {
  return std::make_unique<LastSearch>(call.context().last_reports());
}

}  // namespace

const TableFunction kExplain{
    .name = "warp_explain",
    .columns = "table_name TEXT, column_name TEXT, index_kind TEXT, method TEXT, queries INTEGER, "
               "pairs INTEGER, indexed INTEGER, distances INTEGER, clusters INTEGER, nprobe INTEGER, "
               "refine INTEGER, expected_recall REAL",
    .column_count = Output::kCount,
    .parameters = {},
    .run = run,
};

}  // namespace warplite::sql

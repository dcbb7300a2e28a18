// warp_knn_graph(table, column, k [, options]): for every row that has a vector, the k nearest
// others; by ascending rowid. Rows are searched in batches as they are asked for, of one view of
// the table, so that memory stays bounded and a LIMIT ends the work.
#include <algorithm>

#include "engine/filter/content_hits.h"
#include "engine/filter/ordered_scan.h"
#include "sql/host/progress.h"
#include "sql/table/row_reader.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/hit_order.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kRowId, kNeighbor, kDistance, kRank, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kK, kOptions };
};

// Queries of a batch. The first one is small, for those who look at a few rows only.
constexpr std::size_t kFirstBatch = 512;
constexpr std::size_t kLargestBatch = 16384;
constexpr std::size_t kHitsOfBatch = std::size_t{1} << 22;

// Rows with their vectors, batch by batch.
class BatchReader {
 public:
  BatchReader(const SearchTarget& target, std::shared_ptr<const engine::View> view)
      : slot_(static_cast<std::size_t>(target.column->slot)),
        scan_(view, std::make_shared<const engine::Selection>(
                        engine::present_rows(*view, engine::Selection(*view, {})))) {
    reader_.reset(std::move(view));
  }

  void read(std::size_t most) {
    rowids_.clear();
    vectors_.clear();
    for (; !scan_.at_end() && rowids_.size() < most; scan_.next()) {
      const engine::Location at = scan_.at();
      const Cell vector = reader_.vector(at, slot_);
      ++rows_;
      if (vector.is_null()) continue;
      rowids_.push_back(reader_.view().rowid(at));
      const auto* bytes = reinterpret_cast<const std::byte*>(vector.bytes.data());
      vectors_.insert(vectors_.end(), bytes, bytes + vector.bytes.size());
    }
  }
  const std::vector<RowId>& rowids() const { return rowids_; }
  const std::byte* vectors() const { return vectors_.data(); }
  std::uint64_t rows() const { return rows_; }  // so far, those without a vector included

 private:
  std::size_t slot_;
  engine::OrderedScan scan_;
  RowReader reader_;
  std::vector<RowId> rowids_;
  std::vector<std::byte> vectors_;
  std::uint64_t rows_ = 0;
};

class GraphRows final : public Rows {
 public:
  GraphRows(const Call& call, SearchTarget target, std::size_t k, SearchOptions options)
      : target_(std::move(target)),
        options_(std::move(options)),
        interrupt_(call.context().db()),
        progress_(progress_reporter(target_.place().text())),
        view_(target_.table->collection->view()),
        all_(*view_, {}),
        k_(static_cast<std::size_t>(std::min<std::uint64_t>(k, view_->live_rows()))),
        batch_(target_, view_),
        found_(0, 0) {}

  bool next() override {
    if (hit_ != end_) ++hit_;
    while (!settle()) {
      if (started_ == batch_.rowids().size() && !search()) return false;
      start_row();
    }
    ++rank_;
    return true;
  }

  void column(sqlite3_context* context, int column) const override {
    switch (column) {
      case Output::kRowId: sqlite3_result_int64(context, row_); break;
      case Output::kNeighbor: sqlite3_result_int64(context, hit_->rowid); break;
      case Output::kDistance: sqlite3_result_double(context, hit_->distance); break;
      case Output::kRank: sqlite3_result_int64(context, rank_); break;
    }
  }

 private:
  // Passes the row itself, which is no neighbour of its own.
  bool settle() {
    if (hit_ != end_ && hit_->rowid == row_) ++hit_;
    return hit_ != end_;
  }

  // Of the k + 1 nearest rows one is the row itself, or the last is one too many.
  void start_row() {
    if (started_ == sorted_) sorted_ = sort_ahead(found_, sorted_);
    const std::span<const Hit> hits = found_.sorted(started_);
    row_ = batch_.rowids()[started_++];
    const auto is_itself = [this](const Hit& hit) { return hit.rowid == row_; };
    const bool found_itself = std::any_of(hits.begin(), hits.end(), is_itself);
    hit_ = hits.data();
    end_ = hit_ + std::min(hits.size(), k_ + (found_itself ? 1 : 0));
    rank_ = 0;
  }

  // False: there are no more rows.
  bool search() {
    if (k_ == 0) return false;
    batch_.read(std::min(batch_rows_, std::max<std::size_t>(1, kHitsOfBatch / (k_ + 1))));
    batch_rows_ = std::min(4 * batch_rows_, kLargestBatch);
    hit_ = end_ = nullptr;
    started_ = sorted_ = 0;
    const std::size_t queries = batch_.rowids().size();
    if (queries == 0) return false;
    found_ = engine::nearest(
        *view_, all_, index_of(target_),
        search_request(target_, batch_.vectors(), queries, options_, interrupt_), k_ + 1);
    if (progress_) {
      progress_("graph: row " + std::to_string(batch_.rows()) + " of " +
                    std::to_string(view_->live_rows()),
                static_cast<double>(batch_.rows()) / static_cast<double>(view_->live_rows()));
    }
    return true;
  }

  SearchTarget target_;
  SearchOptions options_;
  Interrupt interrupt_;
  index::Progress progress_;
  std::shared_ptr<const engine::View> view_;
  engine::Selection all_;
  std::size_t k_;
  BatchReader batch_;
  std::size_t batch_rows_ = kFirstBatch;
  compute::HitTable found_;    // by row of the batch
  std::size_t sorted_ = 0;     // rows of the batch whose hits are in order
  std::size_t started_ = 0;    // rows of the batch
  // State of row started_ - 1.
  RowId row_ = 0;
  int rank_ = 0;
  const Hit* hit_ = nullptr;
  const Hit* end_ = nullptr;
};

std::unique_ptr<Rows> run(Call& call) {
  SearchTarget target = search_target(call, Input::kTable, Input::kColumn);
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  return std::make_unique<GraphRows>(call, std::move(target), k,
                                     search_options(call, Input::kOptions));
}

}  // namespace

const TableFunction kKnnGraph{
    .name = "warp_knn_graph",
    .columns = "rowid INTEGER, neighbor INTEGER, distance REAL, rank INTEGER",
    .column_count = Output::kCount,
    .parameters = {{"table"}, {"column"}, {"k"}, {"options", false}},
    .run = run,
    .orders = {{Output::kRowId, Output::kRank},
               {Output::kRowId, Output::kDistance, Output::kNeighbor},
               {Output::kRowId, Output::kDistance, Output::kRank}},
    .estimated_rows = 1e6,
};

}  // namespace warplite::sql

#include "sql/table_functions/neighbors.h"

#include <utility>

#include "sql/table_functions/hit_order.h"

namespace warplite::sql {
namespace {

void result_score(sqlite3_context* context, const Hit& hit, Score score) {
  if (score == Score::kDistance) {
    sqlite3_result_double(context, hit.distance);
  } else {
    sqlite3_result_int64(context, static_cast<sqlite3_int64>(-hit.distance));
  }
}

class NeighborRows final : public Rows {
 public:
  NeighborRows(std::vector<Hit> hits, Score score) : hits_(std::move(hits)), score_(score) {}

  bool next() override { return ++rank_ <= hits_.size(); }
  bool rewind() override {
    rank_ = 0;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    const Hit& hit = hits_[rank_ - 1];
    switch (column) {
      case Neighbors::kRowId: sqlite3_result_int64(context, hit.rowid); break;
      case Neighbors::kDistance: result_score(context, hit, score_); break;
      case Neighbors::kRank:
        sqlite3_result_int64(context, static_cast<sqlite3_int64>(rank_));
        break;
    }
  }

 private:
  std::vector<Hit> hits_;
  Score score_;
  std::size_t rank_ = 0;  // from 1
};

class JoinedRows final : public Rows {
 public:
  JoinedRows(std::vector<Value> ids, compute::HitTable table, Score score)
      : ids_(std::move(ids)), table_(std::move(table)), score_(score) {}

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
      case JoinedNeighbors::kQueryId: result_cell(context, id_); break;
      case JoinedNeighbors::kRowId: sqlite3_result_int64(context, hit_->rowid); break;
      case JoinedNeighbors::kDistance: result_score(context, *hit_, score_); break;
      case JoinedNeighbors::kRank: sqlite3_result_int64(context, hit_ - first_ + 1); break;
    }
  }

 private:
  // Goes to the first hit of the next query that has any.
  bool next_query() {
    while (started_ < ids_.size()) {
      if (started_ == sorted_) sorted_ = sort_ahead(table_, sorted_);
      const std::span<const Hit> hits = table_.sorted(started_);
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
  Score score_;
  std::size_t sorted_ = 0;   // queries whose hits are in order
  std::size_t started_ = 0;  // queries
  // State of query started_ - 1.
  Cell id_;
  const Hit* first_ = nullptr;
  const Hit* hit_ = nullptr;
  const Hit* end_ = nullptr;
};

}  // namespace

std::unique_ptr<Rows> Neighbors::rows(std::vector<Hit> hits, Score score) {
  return std::make_unique<NeighborRows>(std::move(hits), score);
}

std::unique_ptr<Rows> JoinedNeighbors::rows(std::vector<Value> ids, compute::HitTable table,
                                            Score score) {
  return std::make_unique<JoinedRows>(std::move(ids), std::move(table), score);
}

}  // namespace warplite::sql

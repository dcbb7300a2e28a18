#include "sql/table_functions/neighbors.h"

#include <utility>

namespace warplite::sql {
namespace {

class NeighborRows final : public Rows {
 public:
  explicit NeighborRows(std::vector<Hit> hits) : hits_(std::move(hits)) {}

  bool next() override { return ++rank_ <= hits_.size(); }
  bool rewind() override {
    rank_ = 0;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    const Hit& hit = hits_[rank_ - 1];
    switch (column) {
      case Neighbors::kRowId: sqlite3_result_int64(context, hit.rowid); break;
      case Neighbors::kDistance: sqlite3_result_double(context, hit.distance); break;
      case Neighbors::kRank:
        sqlite3_result_int64(context, static_cast<sqlite3_int64>(rank_));
        break;
    }
  }

 private:
  std::vector<Hit> hits_;
  std::size_t rank_ = 0;  // from 1
};

}  // namespace

std::unique_ptr<Rows> Neighbors::rows(std::vector<Hit> hits) {
  return std::make_unique<NeighborRows>(std::move(hits));
}

}  // namespace warplite::sql

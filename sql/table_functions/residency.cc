// warp_residency(): which blocks live where, in this process.
#include "engine/residency/residency.h"

#include "sql/table_functions/functions.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kOwner, kDevice, kBytes, kInUse, kState, kCount };
};

class ResidentBlocks : public Rows {
 public:
  explicit ResidentBlocks(std::vector<engine::Residency::Entry> entries)
      : entries_(std::move(entries)) {}

  bool next() override { return ++returned_ <= entries_.size(); }
  void column(sqlite3_context* context, int column) const override {
    const engine::Residency::Entry& entry = entries_[returned_ - 1];
    switch (column) {
      case Output::kOwner: result_cell(context, Cell::text(entry.owner)); break;
      case Output::kDevice: result_cell(context, Cell::text(entry.device)); break;
      case Output::kBytes:
        sqlite3_result_int64(context, static_cast<sqlite3_int64>(entry.bytes));
        break;
      case Output::kInUse: sqlite3_result_int(context, entry.in_use ? 1 : 0); break;
      case Output::kState: result_cell(context, Cell::text(entry.state)); break;
    }
  }

 private:
  std::vector<engine::Residency::Entry> entries_;
  std::size_t returned_ = 0;
};

std::unique_ptr<Rows> run(Call&) {
  return std::make_unique<ResidentBlocks>(engine::Residency::instance().entries());
}

}  // namespace

const TableFunction kResidency{
    .name = "warp_residency",
    .columns = "owner TEXT, device TEXT, bytes INTEGER, in_use INTEGER, state TEXT",
    .column_count = Output::kCount,
    .parameters = {},
    .run = run,
};

}  // namespace warplite::sql

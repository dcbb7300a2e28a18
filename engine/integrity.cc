#include "engine/integrity.h"

#include <algorithm>

#include "engine/parts.h"

namespace warplite::engine {
namespace {

class ViewChecker {
 public:
  ViewChecker(const View& view, Collection& collection, std::size_t limit,
              std::vector<std::string>& faults)
      : view_(view), collection_(collection), limit_(limit), faults_(faults) {}

  void run() {
    for (std::size_t i = 0; i < view_.parts(); ++i) check_part(static_cast<std::uint32_t>(i));
    std::sort(rowids_.begin(), rowids_.end());
    for (std::size_t i = 1; i < rowids_.size(); ++i) {
      if (rowids_[i] == rowids_[i - 1]) {
        report("row " + std::to_string(rowids_[i]) + " exists more than once");
      }
    }
  }

 private:
  void report(const std::string& fault) {
    if (faults_.size() < limit_) faults_.push_back(collection_.table() + ": " + fault);
  }

  void check_part(std::uint32_t i) {
    const Part& part = view_.part(i);
    const RowIdView rowids = part.rowids();
    std::uint32_t live = 0;
    for (std::uint32_t row = 0; row < part.rows(); ++row) {
      if (!is_alive(part, row)) continue;
      ++live;
      rowids_.push_back(rowids[row]);
      if (rowids[row] < part.min_rowid() || rowids[row] > part.max_rowid()) {
        report("row " + std::to_string(rowids[row]) + " is outside its part's bounds");
      }
      if (view_.layout().text_key >= 0) check_key({i, row}, rowids[row]);
    }
    if (live != part.live_rows()) {
      report("part " + std::to_string(i) + " has " + std::to_string(live) + " live rows where " +
             std::to_string(part.live_rows()) + " are recorded");
    }
  }

  void check_key(Location at, RowId rowid) {
    const Value key = view_.plain(at, static_cast<std::size_t>(view_.layout().text_key));
    if (key.is_null()) {
      report("row " + std::to_string(rowid) + " has no key");
    } else if (collection_.find_key(key.cell().bytes) != rowid) {
      report("the key of row " + std::to_string(rowid) + " does not lead to it");
    }
  }

  const View& view_;
  Collection& collection_;
  const std::size_t limit_;
  std::vector<std::string>& faults_;
  std::vector<RowId> rowids_;
};

}  // namespace

void check_view(const View& view, Collection& collection, std::size_t limit,
                std::vector<std::string>& faults) {
  ViewChecker(view, collection, limit, faults).run();
}

}  // namespace warplite::engine

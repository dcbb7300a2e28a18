#include "engine/content_check.h"

#include <algorithm>

#include "engine/table/parts.h"
#include "storage/codec/row_hash.h"

namespace warplite::engine {
namespace {

constexpr std::size_t kRowsAtOnce = 4096;

// A live row of the index.
struct Known {
  RowId rowid;
  std::uint64_t hash;
};

class ContentChecker {
 public:
  ContentChecker(const View& view, const Collection& collection, bool vanished, std::size_t limit,
                 compute::Cancellation* cancellation, std::vector<std::string>& faults)
      : view_(view), collection_(collection), vanished_(vanished), limit_(limit),
        cancellation_(cancellation), faults_(faults) {}

  void run() {
    collect();
    for (std::size_t at = 0; at < rows_.size() && !full(); at += kRowsAtOnce) compare(at);
    find_missing();
  }

 private:
  bool full() const { return faults_.size() >= limit_; }
  void report(RowId rowid, const char* what) {
    if (!full()) {
      faults_.push_back(collection_.table() + ": row " + std::to_string(rowid) + what);
    }
  }

  void collect() {
    for (std::uint32_t i = 0; i < view_.parts(); ++i) {
      const Part& part = view_.part(i);
      const RowIdView rowids = part.rowids();
      for (std::uint32_t row = 0; row < part.rows(); ++row) {
        if (is_alive(part, row)) rows_.push_back({rowids[row], part.hash(row)});
      }
    }
    std::sort(rows_.begin(), rows_.end(),
              [](const Known& a, const Known& b) { return a.rowid < b.rowid; });
  }

  void compare(std::size_t first) {
    if (cancellation_ != nullptr && cancellation_->requested()) {
      throw Error(ErrorKind::kInterrupted, "interrupted");
    }
    const std::size_t last = std::min(first + kRowsAtOnce, rows_.size());
    std::vector<RowId> rowids;
    for (std::size_t i = first; i < last; ++i) {
      // A rowid that is there twice is reported as such.
      if (rowids.empty() || rowids.back() != rows_[i].rowid) rowids.push_back(rows_[i].rowid);
    }
    std::size_t next = first;
    const auto pass_to = [&](RowId rowid, bool inclusive) {
      for (; next < last && (rows_[next].rowid < rowid || inclusive); ++next) missed(rows_[next]);
    };
    view_.content()->read(rowids, [&](const ContentSource::Row& row) {
      pass_to(row.rowid, false);
      const std::uint64_t hash = storage::row_hash(view_.layout(), row.vectors, row.plains);
      for (; next < last && rows_[next].rowid == row.rowid; ++next) {
        if (rows_[next].hash != hash) differs(row.rowid);
      }
    });
    pass_to(0, true);
  }

  // Rows whose values a column does not take are passed over by read().
  void missed(const Known& row) {
    if (view_.content()->exists(row.rowid)) {
      differs(row.rowid);
    } else if (vanished_) {
      report(row.rowid, " is in the index, but no more in the content table");
    } else {
      view_.content()->note_gone(row.rowid);
    }
  }
  void differs(RowId rowid) {
    report(rowid, " is not indexed as the content table has it");
  }

  void find_missing() {
    auto at = rows_.begin();
    view_.content()->scan_rowids([&](RowId rowid) {
      while (at != rows_.end() && at->rowid < rowid) ++at;
      if (at == rows_.end() || at->rowid != rowid) {
        report(rowid, " of the content table is not in the index");
      }
    });
  }

  const View& view_;
  const Collection& collection_;
  const bool vanished_;
  const std::size_t limit_;
  compute::Cancellation* const cancellation_;
  std::vector<std::string>& faults_;
  std::vector<Known> rows_;
};

}  // namespace

void check_content(const View& view, const Collection& collection, bool vanished,
                   std::size_t limit, compute::Cancellation* cancellation,
                   std::vector<std::string>& faults) {
  ContentChecker(view, collection, vanished, limit, cancellation, faults).run();
}

}  // namespace warplite::engine

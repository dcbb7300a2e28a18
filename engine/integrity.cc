#include "engine/integrity.h"

#include <algorithm>
#include <cstring>

#include "core/process/interruption.h"
#include "engine/table/models.h"
#include "engine/table/parts.h"

namespace warplite::engine {
namespace {

class ViewChecker {
 public:
  ViewChecker(const View& view, Collection& collection, std::size_t limit,
              compute::Cancellation* cancellation, std::vector<std::string>& faults)
      : view_(view),
        collection_(collection),
        limit_(limit),
        cancellation_(cancellation),
        faults_(faults) {}

  void run() {
    for (std::size_t i = 0; i < view_.parts(); ++i) check_part(static_cast<std::uint32_t>(i));
    interruptible_sort(rowids_.begin(), rowids_.end());
    for (std::size_t i = 1; i < rowids_.size(); ++i) {
      if (rowids_[i] == rowids_[i - 1]) {
        report("row " + std::to_string(rowids_[i]) + " exists more than once");
      }
    }
    for (std::size_t i = 0; i < view_.layout().vectors.size(); ++i) {
      if (!view_.model(i).is_null()) check_column_codes(i);
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

  void check_column_codes(std::size_t column) {
    const index::Trained* index = collection_.index(column).trained();
    if (index == nullptr) {
      report("vector column " + std::to_string(column) + " has a model, but no use for it");
      return;
    }
    const Stamp stamp = view_.model(column);
    const std::shared_ptr<const index::Model> model = view_.load_model(column, *index);
    for (std::size_t i = 0; i < view_.parts() && faults_.size() < limit_; ++i) {
      if (view_.part(i).codes(column, stamp).is_null()) continue;
      try {
        check_part_codes(view_.part(i), column, *model);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kCorrupt) throw;
        faults_.emplace_back(error.what());
      }
    }
  }

  // Codes follow from model and vectors, wherever they were made and vectors are kept.
  void check_part_codes(const Part& part, std::size_t column, const index::Model& model) {
    const auto stored = part.load_codes(column);
    if (part.decodes(column)) return model.check_codes(stored->payload, part.rows());
    const Part::Vectors vectors = part.vectors(column);
    // Vectors of rows that were deleted since are not there to be coded again.
    if (view_.content() != nullptr && !all_there(part)) {
      return model.check_codes(stored->payload, part.rows());
    }
    Bytes codes;
    on_worker(coding_demand(model, part.rows(), cancellation_),
              [&](compute::Device& device) {
                codes = model.encode(device, vectors.data, vectors.present, cancellation_);
              });
    if (codes.size() == stored->payload.size() &&
        std::memcmp(codes.data(), stored->payload.data(), codes.size()) == 0) {
      return;
    }
    report("segment " + std::to_string(part.segment()) + ": codes of vector column " +
           std::to_string(column) + " are not those of its vectors");
  }

  static bool all_there(const Part& part) {
    if (part.live_rows() != part.rows()) return false;
    for (std::uint32_t row = 0; row < part.rows(); ++row) {
      if (part.lost(row)) return false;
    }
    return true;
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
  compute::Cancellation* const cancellation_;
  std::vector<std::string>& faults_;
  std::vector<RowId> rowids_;
};

}  // namespace

void check_view(const View& view, Collection& collection, std::size_t limit,
                compute::Cancellation* cancellation, std::vector<std::string>& faults) {
  ViewChecker(view, collection, limit, cancellation, faults).run();
}

}  // namespace warplite::engine

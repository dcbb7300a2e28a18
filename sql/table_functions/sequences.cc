#include "sql/table_functions/sequences.h"

#include <utility>

#include "sql/progress.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

class SequenceRows : public Rows {
 public:
  SequenceRows(std::vector<Value> ids, std::vector<engine::Sequences> answers)
      : ids_(std::move(ids)), answers_(std::move(answers)) {}

  bool next() override {
    if (!begun_) {
      begun_ = true;
    } else {
      ++at_;
    }
    while (query_ < answers_.size() && at_ >= answers_[query_].nearest.size()) {
      ++query_;
      at_ = 0;
    }
    return query_ < answers_.size();
  }
  bool rewind() override {
    query_ = at_ = 0;
    begun_ = false;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    const engine::Sequences& answer = answers_[query_];
    const engine::Sequence& row = answer.nearest[at_];
    if (!ids_.empty() && column-- == 0) return result_cell(context, ids_[query_].cell());
    switch (column) {
      case SequenceColumns::kRowId: return sqlite3_result_int64(context, row.hit.rowid);
      case SequenceColumns::kDistance:
        return sqlite3_result_int64(context, static_cast<sqlite3_int64>(row.hit.distance));
      case SequenceColumns::kMatches: return sqlite3_result_int64(context, row.matches);
      case SequenceColumns::kCertified: return sqlite3_result_int(context, answer.certified);
      case SequenceColumns::kRank:
        return sqlite3_result_int64(context, static_cast<sqlite3_int64>(at_ + 1));
      default: return;
    }
  }

 private:
  const std::vector<Value> ids_;
  const std::vector<engine::Sequences> answers_;
  std::size_t query_ = 0, at_ = 0;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<Rows> sequence_rows(std::vector<Value> ids,
                                    std::vector<engine::Sequences> answers) {
  return std::make_unique<SequenceRows>(std::move(ids), std::move(answers));
}

std::vector<engine::Sequences> run_sequences(const Call& call, const TextTarget& target,
                                             std::span<const std::string_view> queries,
                                             std::size_t k, int candidates, int options) {
  std::optional<std::size_t> most;
  constexpr std::int64_t kMostCandidates = std::int64_t{1} << 31;
  if (!call.is_null(candidates)) {
    most = static_cast<std::size_t>(call.count(candidates, 1, kMostCandidates));
  }
  const std::string device = device_option(call, options);
  Interrupt interrupt(call.context().db());
  const std::shared_ptr<const engine::View> view = target.table->collection->view();
  return engine::nearest_sequences(*view, engine::Selection(*view, {}),
                                   target.request(device, interrupt), queries, k, most);
}

}  // namespace warplite::sql

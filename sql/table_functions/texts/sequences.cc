#include "sql/table_functions/texts/sequences.h"

#include <algorithm>
#include <utility>

#include "engine/text/sequences.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

constexpr TextColumn kColumns[] = {TextColumn::kQueryId,   TextColumn::kRowId,
                                   TextColumn::kDistance,  TextColumn::kMatches,
                                   TextColumn::kCertified, TextColumn::kRank};

class SequenceRows final : public TextRows {
 public:
  SequenceRows(const Call& call, TextTarget target, TextQueries queries,
               const SequenceRequest& request)
      : TextRows(call, std::move(target), std::move(queries), request.options, kColumns),
        k_(std::min(request.k, static_cast<std::size_t>(view().live_rows()))),
        candidates_(request.candidates) {}

 private:
  void answer(std::span<const std::string_view> queries) override {
    for (const engine::Sequences& answer :
         engine::nearest_sequences(view(), selection(), request(), queries, k_, candidates_)) {
      for (const engine::Sequence& row : answer.nearest) {
        add({row.hit.rowid, row.hit.distance, row.matches, row.hit.block, row.hit.row, answer.certified});
      }
      end_query();
    }
  }
  std::size_t hits_of_query() const override {
    const auto rows = static_cast<std::size_t>(view().live_rows());
    return std::min(candidates_.value_or(2 * k_), rows);
  }

  const std::size_t k_;
  const std::optional<std::size_t> candidates_;
};

}  // namespace

SequenceRequest sequence_request(const Call& call, int k, int candidates, int options) {
  constexpr std::int64_t kMostCandidates = std::int64_t{1} << 31;
  SequenceRequest request{static_cast<std::size_t>(call.count(k)), std::nullopt, {}};
  if (!call.is_null(candidates)) {
    request.candidates = static_cast<std::size_t>(call.count(candidates, 1, kMostCandidates));
  }
  request.options = work_options(call, options);
  return request;
}

std::unique_ptr<Rows> sequence_rows(const Call& call, TextTarget target, TextQueries queries,
                                    const SequenceRequest& request) {
  return std::make_unique<SequenceRows>(call, std::move(target), std::move(queries), request);
}

}  // namespace warplite::sql

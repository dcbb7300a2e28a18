#include "sql/table_functions/hybrid/fusion.h"

#include <algorithm>
#include <unordered_map>

#include "core/process/interruption.h"
#include "sql/functions/rank_fusion.h"

namespace warplite::sql {
namespace {

double linear_term(const std::vector<Hit>& list, double distance, double weight) {
  const double best = list.front().distance, worst = list.back().distance;
  return weight * (best == worst ? 1 : (worst - distance) / (worst - best));
}

class Fusion {
 public:
  explicit Fusion(const FusionOptions& options) : options_(options) {}

  void add(std::size_t number, const std::vector<Hit>& list) {
    const double weight = options_.weights.empty() ? 1 : options_.weights[number];
    for (std::size_t i = 0; i < list.size(); ++i) {
      poll_();
      const auto [at, is_new] = places_.try_emplace(list[i].rowid, rows_.size());
      if (is_new) {
        rows_.push_back({.rowid = list[i].rowid});
        sums_.emplace_back();
      }
      const auto rank = static_cast<std::uint32_t>(i + 1);
      rows_[at->second].ranks[number] = rank;
      sums_[at->second].add(options_.linear ? linear_term(list, list[i].distance, weight)
                                            : rrf_term(rank, weight));
    }
  }

  std::vector<FusedRow> best(std::size_t k) {
    for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].score = sums_[i].value();
    const auto end = rows_.begin() + static_cast<std::ptrdiff_t>(std::min(k, rows_.size()));
    std::partial_sort(rows_.begin(), end, rows_.end(), [&](const auto& a, const auto& b) {
      poll_();
      return a.score != b.score ? a.score > b.score : a.rowid < b.rowid;
    });
    rows_.erase(end, rows_.end());
    return std::move(rows_);
  }

 private:
  const FusionOptions& options_;
  std::vector<FusedRow> rows_;
  std::vector<ScoreSum> sums_;                     // of each row
  std::unordered_map<RowId, std::size_t> places_;  // in rows_
  SparsePoll poll_;
};

}  // namespace

std::vector<FusedRow> fuse(const std::vector<std::vector<Hit>>& lists,
                           const FusionOptions& options, std::size_t k) {
  Fusion fusion(options);
  for (std::size_t i = 0; i < lists.size(); ++i) fusion.add(i, lists[i]);
  return fusion.best(k);
}

}  // namespace warplite::sql

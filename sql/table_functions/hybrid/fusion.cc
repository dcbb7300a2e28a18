#include "sql/table_functions/hybrid/fusion.h"

#include <algorithm>
#include <unordered_map>

#include "core/process/interruption.h"
#include "sql/functions/rank_fusion.h"

namespace warplite::sql {
namespace {

using Lists = std::vector<std::vector<Hit>>;

// 1 for the first row of a list, 0 for the last one.
double normalised(const std::vector<Hit>& list, std::uint32_t rank) {
  const double best = list.front().distance, worst = list.back().distance;
  return best == worst ? 1 : (worst - list[rank - 1].distance) / (worst - best);
}

double score(const Lists& lists, const RankingOptions& options, const FusedRow& row) {
  ScoreSum sum;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (row.ranks[i] == 0) continue;
    const double weight = options.weights.empty() ? 1 : options.weights[i];
    sum.add(options.linear ? weight * normalised(lists[i], row.ranks[i])
                           : rrf_term(row.ranks[i], weight));
  }
  return sum.value();
}

// The rows of all lists, with their ranks.
std::vector<FusedRow> ranked(const Lists& lists, SparsePoll& poll) {
  std::vector<FusedRow> rows;
  std::unordered_map<RowId, std::size_t> places;  // in rows
  for (std::size_t i = 0; i < lists.size(); ++i) {
    std::uint32_t rank = 0;
    for (const Hit& hit : lists[i]) {
      poll();
      const auto [at, is_new] = places.try_emplace(hit.rowid, rows.size());
      if (is_new) rows.push_back({.rowid = hit.rowid});
      rows[at->second].ranks[i] = ++rank;
    }
  }
  return rows;
}

}  // namespace

std::vector<FusedRow> fuse(const Lists& lists, const RankingOptions& options, std::size_t k) {
  SparsePoll poll;
  std::vector<FusedRow> rows = ranked(lists, poll);
  for (FusedRow& row : rows) {
    poll();
    row.score = score(lists, options, row);
  }
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(std::min(k, rows.size()));
  std::partial_sort(rows.begin(), end, rows.end(), [&](const FusedRow& a, const FusedRow& b) {
    poll();
    return a.score != b.score ? a.score > b.score : a.rowid < b.rowid;
  });
  rows.erase(end, rows.end());
  return rows;
}

}  // namespace warplite::sql

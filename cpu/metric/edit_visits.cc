#include "cpu/metric/edit_visits.h"

#include <algorithm>
#include <bit>

namespace warplite::cpu {
namespace {

// Putting a text of a group beside those of others takes a tenth of the time of comparing the
// group.
constexpr int kFew = 8;
constexpr std::size_t kItemVisits = 64;

}  // namespace

EditVisits::EditVisits(const EditTileView& view, const compute::MetricTexts& texts,
                       const std::uint16_t* rows, std::span<const std::uint32_t> queries)
    : view_(view), texts_(texts), rows_(rows), queries_(queries), visits_(queries.size()) {}

void EditVisits::add(std::uint32_t query, std::uint32_t group, std::uint32_t texts) {
  if (texts == 0) return;
  Visits& visits = visits_[query];
  (std::popcount(texts) <= kFew ? visits.few : visits.most).push_back({query, group, texts});
}

void EditVisits::compare(EditThreads& threads, std::size_t columns) {
  compare_groups(threads, columns);
  compare_few(threads, columns);
}

void EditVisits::compare_groups(EditThreads& threads, std::size_t columns) {
  by_group_.clear();
  for (Visits& visits : visits_) {
    by_group_.insert(by_group_.end(), visits.most.begin(), visits.most.end());
    visits.most.clear();
  }
  std::stable_sort(by_group_.begin(), by_group_.end(), [](const EditVisit& a, const EditVisit& b) {
    return a.group < b.group;
  });
  const std::size_t items = (by_group_.size() + kItemVisits - 1) / kItemVisits;
  // The first visit of the first group that begins at `at` or later.
  const auto begin = [&](std::size_t at) {
    at = std::min(at, by_group_.size());
    while (at != 0 && at < by_group_.size() && by_group_[at].group == by_group_[at - 1].group) ++at;
    return at;
  };
  threads.run(items, columns * by_group_.size(), [&](EditComparer& comparer, std::size_t item) {
    comparer.load(queries_);
    comparer.begin_tile(view_);
    const std::size_t end = begin((item + 1) * kItemVisits);
    for (std::size_t i = begin(item * kItemVisits), next; i < end; i = next) {
      const std::uint32_t group = by_group_[i].group;
      next = i + 1;
      while (next < end && by_group_[next].group == group) ++next;
      comparer.compare(group_of(texts_, view_.tile().width, rows_, group),
                       std::span(by_group_).subspan(i, next - i));
    }
  });
}

void EditVisits::compare_few(EditThreads& threads, std::size_t columns) {
  std::size_t visits = 0;
  for (const Visits& of_query : visits_) visits += of_query.few.size();
  if (visits == 0) return;
  threads.run(visits_.size(), columns * visits / 4, [&](EditComparer& comparer, std::size_t query) {
    std::vector<EditVisit>& few = visits_[query].few;
    if (few.empty()) return;
    comparer.load(queries_);
    comparer.begin_tile(view_);
    comparer.compare_some(texts_, rows_, few);
    few.clear();
  });
}

}  // namespace warplite::cpu

#include "cpu/match/lists.h"

#include <algorithm>
#include <limits>

namespace warplite::cpu {
namespace {

using compute::MatchItem;

// Slices and strips of a query that are worth their loops.
constexpr std::size_t kMostSlices = 16384;
// Sums of bitmaps are bytes.
constexpr std::size_t kMostBitmaps = 255;
// Items that are looked for at a time.
constexpr std::size_t kItemsAtOnce = 16384;
// Counts stay below 2³¹ (MatchWork).
constexpr std::uint64_t kMostCount = std::numeric_limits<std::int32_t>::max();

}  // namespace

std::uint64_t MatchLists::find(const MatchTileView& view, std::span<const MatchItem> items,
                               const std::function<void()>& check) {
  met_.clear();
  std::uint64_t bound = 0;
  for (std::size_t i = 0; i < items.size(); i += kItemsAtOnce) {
    if (i != 0) check();
    bound += find_some(view, items.subspan(i, std::min(items.size() - i, kItemsAtOnce)));
  }
  return std::min(bound, kMostCount);
}

// Adds to met_, and returns by how much the bound is higher.
std::uint64_t MatchLists::find_some(const MatchTileView& view, std::span<const MatchItem> items) {
  const std::size_t n = items.size();
  ends_.resize(2 * n);
  found_.resize(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    ends_[i] = items[i].low;
    ends_[n + i] = items[i].high;
  }
  const bool ranges = std::any_of(items.begin(), items.end(), [](const MatchItem& item) {
    return item.low != item.high;
  });
  view.lower_bounds(ends_.data(), n, found_.data());
  if (ranges) view.lower_bounds(ends_.data() + n, n, found_.data() + n);
  std::uint64_t bound = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t first = found_[i];
    std::uint32_t end = found_[ranges ? n + i : i];
    end += end < view.keywords() && view.key(end) == items[i].high ? 1 : 0;
    if (first >= end || items[i].low > items[i].high || items[i].weight == 0) continue;
    met_.push_back({first, end, items[i].weight});
    bound = std::min(bound + std::uint64_t{end - first} * items[i].weight, kMostCount);
  }
  return bound;
}

// Rows ascend in the list of a keyword alone, so each gets a slice, unless those are too many.
void MatchLists::take(const MatchTileView& view, const LongLists& lists) {
  slices_.clear();
  bitmaps_.clear();
  std::size_t keywords = 0;
  for (const Met& met : met_) keywords += met.end - met.first;
  whole_ = keywords > kMostSlices;
  for (const Met& met : met_) {
    if (whole_) {
      slices_.push_back({view.begin(met.first), view.begin(met.end), met.weight});
      continue;
    }
    for (std::uint32_t i = met.first; i < met.end; ++i) take_list(view, lists, i, met.weight);
  }
}

void MatchLists::take_list(const MatchTileView& view, const LongLists& lists,
                           std::uint32_t keyword, std::uint32_t weight) {
  const std::uint32_t begin = view.begin(keyword), end = view.begin(keyword + 1);
  if (weight != 1 || end - begin < lists.long_from() || bitmaps_.size() == kMostBitmaps) {
    __builtin_prefetch(view.rows() + begin);
    slices_.push_back({begin, end, weight});
    return;
  }
  const std::vector<std::uint32_t>& all = lists.keywords();
  const auto at = std::lower_bound(all.begin(), all.end(), keyword);
  bitmaps_.push_back(lists.bitmap(view, static_cast<std::size_t>(at - all.begin())));
}

}  // namespace warplite::cpu

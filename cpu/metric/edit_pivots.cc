#include "cpu/metric/edit_pivots.h"

#include <algorithm>
#include <bit>
#include <utility>
#include "cpu/edit/kernels.h"

namespace warplite::cpu {
namespace {

constexpr std::uint32_t kFarthest = compute::TextPivots::kFarthest;

// Tests of a group of texts beyond this number rule out less than comparing takes (bench/NOTES.md).
constexpr std::size_t kMostTests = 24;

std::uint8_t clamp(std::int64_t distance) {
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(distance, 0, kFarthest));
}

}  // namespace

PivotSearch::PivotSearch(const compute::EditWork& work, const EditTileView& view,
                         const PivotTable& table, std::span<const std::uint32_t> queries,
                         std::size_t k, EditResults& results, EditThreads& threads)
    : work_(work), view_(view), table_(table), queries_(queries), k_(k), results_(results),
      threads_(threads), kernels_(edit_kernels()),
      measures_(threads, work, view, table.pivots(), queries),
      visits_(view, table.members(), table.rows(), queries) {}

std::vector<std::uint32_t> PivotSearch::run() {
  std::vector<std::uint32_t> left_out;
  std::vector<Walk> walks;
  for (std::uint32_t place = 0; place < queries_.size(); ++place) {
    walks.push_back({place, work_.query(queries_[place]).size()});
  }
  for (;;) {
    std::vector<Walk*> wider;
    for (Walk& walk : walks) {
      if (widen(walk)) wider.push_back(&walk);
    }
    if (wider.empty()) break;
    threads_.run(wider.size(), wider.size() * table_.groups(),
                 [&](EditComparer&, std::size_t item) { test(*wider[item]); });
    for (const Walk* walk : wider) add_visits(*walk);
    visits_.compare(threads_, measures_.columns());
  }
  for (const Walk& walk : walks) {
    results_.set_band(queries_[walk.place], walk.left_out ? walk.known : -1);
    if (walk.left_out) left_out.push_back(queries_[walk.place]);
  }
  return left_out;
}

// The k nearest are looked for within radii that grow until they hold them. False: they do.
bool PivotSearch::widen(Walk& walk) {
  const std::int64_t limit = this->limit(walk);
  if (walk.left_out || walk.radius >= limit) return false;
  walk.known = walk.radius;
  const std::int64_t next = walk.known < 0 ? 1 : walk.known + 1 + walk.known / 2;
  walk.radius = k_ == 0 || next > kFarthest ? limit : std::min(next, limit);
  results_.set_band(queries_[walk.place], walk.known, walk.radius);
  return true;
}

// Finds the tests, those that rule out most first.
void PivotSearch::find_tests(Walk& walk) const {
  const std::uint16_t* const distances = measures_.of(walk.place);
  std::vector<std::pair<std::uint32_t, PivotTest>> tests;
  for (std::uint32_t i = 0; i < table_.count(); ++i) {
    // Both distances are held up to the farthest, which makes their difference no larger.
    const std::int64_t distance = clamp(distances[i]);
    const PivotTest test{i, clamp(distance - walk.radius), clamp(distance + walk.radius)};
    const std::uint32_t texts = table_.between(i, test.low, test.high);
    if (texts != view_.tile().texts) tests.push_back({texts, test});
  }
  std::stable_sort(tests.begin(), tests.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  walk.tests.clear();
  for (const auto& [texts, test] : tests) walk.tests.push_back(test);
}

// First of all some groups tell whether to go on.
void PivotSearch::test(Walk& walk) const {
  constexpr std::size_t kSample = 16;
  find_tests(walk);
  const std::size_t count = walk.tests.size();
  std::vector<std::uint32_t> groups;
  for (std::size_t some = 0; some < table_.groups(); some += kEditLanes) {
    std::uint32_t left =
        kernels_.groups_left(table_.bounds(some / kEditLanes), walk.tests.data(), count);
    for (; left != 0; left &= left - 1) {
      groups.push_back(static_cast<std::uint32_t>(some) +
                       static_cast<std::uint32_t>(std::countr_zero(left)));
    }
  }
  while (!groups.empty() && groups.back() >= table_.groups()) groups.pop_back();
  walk.left.assign(table_.groups(), 0);
  const std::size_t most = std::min(count, kMostTests);
  const auto test_group = [&](std::size_t i) {
    walk.left[groups[i]] =
        kernels_.texts_left(table_.distances(groups[i]), walk.tests.data(), most);
  };
  for (std::size_t i = 0; i < groups.size(); i += kSample) test_group(i);
  walk.left_out = !worthwhile(walk, groups, kSample);
  if (walk.left_out) return;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i % kSample != 0) test_group(i);
  }
}

// Whether tests, and comparing with what they leave, take less than comparing with all that lengths
// do not rule out; by every `step`-th of the groups that are to be tested. Times of that are of a
// group that is compared (bench/NOTES.md).
bool PivotSearch::worthwhile(const Walk& walk, std::span<const std::uint32_t> groups,
                             std::size_t step) const {
  constexpr double kTest = 0.02, kText = 0.1;
  // A round of a search for the nearest that may not be the last.
  const double share =
      worthwhile_share(queries_.size()) * (walk.radius < limit(walk) ? 0.15 : 1.0);
  double compared = 0;
  for (std::size_t i = 0; i < groups.size(); i += step) {
    compared += std::min(1.0, kText * std::popcount(walk.left[groups[i]]));
  }
  const double tested =
      kTest * static_cast<double>(std::min(walk.tests.size(), kMostTests) * groups.size());
  return compared * static_cast<double>(step) + tested <=
         share * view_.groups_near(walk.length, walk.radius);
}

void PivotSearch::add_visits(const Walk& walk) {
  if (walk.left_out) return;
  constexpr std::int64_t kFar = compute::kLongestEditText;
  const auto bound = [&](std::int64_t apart) {
    const std::int64_t length = static_cast<std::int64_t>(walk.length) + apart;
    return static_cast<std::uint16_t>(std::clamp<std::int64_t>(length, 0, kFar));
  };
  for (std::uint32_t group = 0; group < walk.left.size(); ++group) {
    if (walk.left[group] == 0) continue;
    const std::uint16_t* const lengths = table_.members().lengths.data() + group * kEditLanes;
    const std::uint32_t texts =
        walk.left[group] & kernels_.between(lengths, bound(-walk.radius), bound(walk.radius));
    visits_.add(walk.place, group, texts);
    visited_ += static_cast<std::uint64_t>(std::popcount(texts));
  }
}

}  // namespace warplite::cpu

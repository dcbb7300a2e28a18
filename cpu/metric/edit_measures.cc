#include "cpu/metric/edit_measures.h"

#include <algorithm>

namespace warplite::cpu {

EditMeasures::EditMeasures(EditThreads& threads, const compute::EditWork& work,
                           const EditTileView& view, const compute::MetricTexts& texts,
                           std::span<const std::uint32_t> queries)
    : stride_(std::size_t{texts.groups} * kEditLanes), distances_(stride_ * queries.size()) {
  constexpr std::size_t kItemColumns = std::size_t{1} << 13;
  const std::size_t groups = texts.groups;
  if (groups == 0) return;
  std::size_t all = 0;
  for (const std::uint32_t q : queries) all += work.query(q).size() + 1;
  columns_ = all / queries.size();
  const std::size_t blocks = texts.begins[groups] / kEditBlockRows + groups;
  const std::size_t cost = all * blocks / groups + 1;  // of a group
  const std::size_t run = std::clamp<std::size_t>(kItemColumns / cost, 1, 64);
  const std::size_t items = (groups + run - 1) / run;
  threads.run(items, cost * groups, [&](EditComparer& comparer, std::size_t item) {
    comparer.load(queries);
    comparer.begin_tile(view);
    for (std::size_t i = item * run; i < std::min((item + 1) * run, groups); ++i) {
      comparer.measure(group_of(texts, view.tile().width, nullptr, i), stride_,
                       distances_.data() + i * kEditLanes);
    }
  });
}

}  // namespace warplite::cpu

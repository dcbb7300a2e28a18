#include "cpu/metric/edit_pivot_table.h"

#include <algorithm>
#include <cstring>

namespace warplite::cpu {
namespace {

using compute::MetricTexts;

MetricTexts copy(const MetricTexts& from) {
  MetricTexts to;
  to.groups = from.groups;
  to.begins = from.begins;
  to.lengths = from.lengths;
  to.symbols = Bytes(from.symbols.size());
  if (from.symbols.size() != 0) {
    std::memcpy(to.symbols.data(), from.symbols.data(), from.symbols.size());
  }
  return to;
}

}  // namespace

PivotTable::PivotTable(const compute::TextPivots& from)
    : count_(from.count), pivots_(copy(from.pivots)), members_(copy(from.members)),
      rows_(from.rows), distances_(from.table.size()), within_(count_ * (kMost + 2)) {
  const std::size_t places = rows_.size();
  const std::size_t blocks = (groups() + kEditLanes - 1) / kEditLanes;
  bounds_.resize(blocks * count_ * 2 * kEditLanes);
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    bounds_[i] = i / kEditLanes % 2 == 0 ? kMost : 0;  // of nothing
  }
  for (std::size_t pivot = 0; pivot < count_; ++pivot) {
    for (std::size_t i = 0; i < places; ++i) add(pivot, i, from.table[pivot * places + i]);
    std::uint32_t* const within = within_.data() + pivot * (kMost + 2);
    for (std::size_t i = 0; i <= kMost; ++i) within[i + 1] += within[i];
  }
}

void PivotTable::add(std::size_t pivot, std::size_t place, std::uint8_t distance) {
  const std::size_t group = place / kEditLanes;
  distances_[(group * count_ + pivot) * kEditLanes + place % kEditLanes] = distance;
  if (members_.lengths[place] == MetricTexts::kNoText) return;
  ++within_[pivot * (kMost + 2) + distance + 1];
  std::uint8_t* const low = bounds_.data() + group % kEditLanes +
                            (group / kEditLanes * count_ + pivot) * 2 * kEditLanes;
  low[0] = std::min(low[0], distance);
  low[kEditLanes] = std::max(low[kEditLanes], distance);
}

}  // namespace warplite::cpu

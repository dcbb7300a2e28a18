// The pivots of a tile (compute/edit_metric.h) as the CPU reads them: the distances of a group to all
// pivots lie together, and tell from where to where they are, since most groups are ruled out as a
// whole.
// Threads: constant once made.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/edit_metric.h"
#include "cpu/edit/kernels.h"

namespace warplite::cpu {

class PivotTable {
 public:
  explicit PivotTable(const compute::TextPivots& from);

  std::size_t count() const { return count_; }
  std::size_t groups() const { return rows_.size() / kEditLanes; }
  const compute::MetricTexts& pivots() const { return pivots_; }
  const compute::MetricTexts& members() const { return members_; }
  const std::uint16_t* rows() const { return rows_.data(); }

  // Returns distances laid out as EditKernels takes them: of a group, and of 32 groups.
  const std::uint8_t* distances(std::size_t group) const {
    return distances_.data() + group * count_ * kEditLanes;
  }
  const std::uint8_t* bounds(std::size_t groups) const {
    return bounds_.data() + groups * count_ * 2 * kEditLanes;
  }
  // Texts at distances from `low` to `high` of a pivot.
  std::uint32_t between(std::size_t pivot, std::uint32_t low, std::uint32_t high) const {
    const std::uint32_t* const within = within_.data() + pivot * (kMost + 2);
    return within[high + 1] - within[low];
  }

 private:
  static constexpr std::size_t kMost = compute::TextPivots::kFarthest;

  void add(std::size_t pivot, std::size_t place, std::uint8_t distance);

  std::size_t count_;
  compute::MetricTexts pivots_, members_;
  std::vector<std::uint16_t> rows_;
  std::vector<std::uint8_t> distances_;  // [group][pivot][32]
  std::vector<std::uint8_t> bounds_;     // [32 groups][pivot][low, high][32]
  std::vector<std::uint32_t> within_;    // [pivot][distance + 1]
};

}  // namespace warplite::cpu

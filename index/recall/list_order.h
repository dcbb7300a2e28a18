// How far lists are from held rows, in the order in which searches find them.
// Threads: find() may run concurrently.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "compute/device.h"
#include "compute/ivf.h"
#include "index/recall/calibration.h"
#include "index/recall/held_rows.h"

namespace warplite::index {

class ListOrder {
 public:
  // `held` outlives it.
  explicit ListOrder(const HeldRows& held);

  // Of `count` held rows from `first` on. away: [count][lists], the nearer the less.
  // contrasts: [count].
  void find(std::size_t first, std::size_t count, float* away, Contrast* contrasts) const;

 private:
  void find_by_codes(std::size_t first, std::size_t count, float* away, Contrast* contrasts) const;
  Contrast contrast(std::size_t row, std::span<const float> away) const;

  const HeldRows& held_;
  const compute::IvfShape& shape_;
  const bool by_codes_;
  compute::Device& host_;  // which puts any number of lists in order
  std::vector<float> columns_, squares_;
  std::shared_ptr<const compute::Buffer> centroids_, codes_;
};

}  // namespace warplite::index

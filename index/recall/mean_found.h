// The numbers of a Calibration::Table: at which looks it is measured, and what they find on
// average. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/recall/calibration.h"

namespace warplite::index {

// 1 … 8, and then four for each doubling, up to `most`.
std::vector<std::uint32_t> ladder(std::uint32_t most);

inline constexpr std::uint32_t kNoRow = ~std::uint32_t{0};

// The nearest rows of some queries, nearest first, and the places at which a search comes to them;
// as many of each query, one query after another; kNoRow where there are fewer.
struct Places {
  std::size_t width = 0;
  std::vector<std::uint32_t> rows, places;

  std::size_t queries() const { return width == 0 ? 0 : rows.size() / width; }
  // Of the query at `index` of others.
  void add(const Places& from, std::size_t index);
};

// The part of their `count` nearest that queries find which look at so many places, on average.
// Queries that want the same rows are no independent observations of what becomes of these: of
// products, all may want the same ten. Only the rows that the measurement has not seen, this part
// of all, would be others, so that the standard error is that of queries and, to this part, that of
// rows.
class MeanFound {
 public:
  MeanFound(const Places& of, std::size_t count, double unseen);
  Found at(std::size_t looks) const;

 private:
  double variance(const std::vector<double>& parts, double mean, std::size_t looks) const;

  const Places& of_;
  const std::size_t count_;
  const double unseen_;
  std::vector<std::uint32_t> numbers_;  // of rows that are wanted, [queries][count]: from 0 on
  std::size_t rows_ = 0;
  double least_error_ = 0;
};

}  // namespace warplite::index

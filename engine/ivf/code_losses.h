// Whether codes of a column lose rows that are wanted, as its searches see (ListSearch::lost_by_codes()). The CPU
// sees it of every query. A device with memory of its own takes as long to tell as to search, so that it is
// asked of some queries; where many of them lost rows, it looks at more candidates for all.
// Threads: as the view whose segments it belongs to.
#pragma once

#include <cstddef>

namespace warplite::engine {

class CodeLosses {
 public:
  // Says whether a search for so many queries is to see, by a device that tells at a cost.
  bool asks(std::size_t queries) {
    if (many() || seen_ < kEnough) return !many();
    unasked_ += queries;
    if (unasked_ < kOneIn * queries) return false;
    unasked_ = 0;
    return true;
  }
  // `lost` of `seen` queries, with as many candidates as the recall that is asked for needs as a rule.
  void add(std::size_t lost, std::size_t seen) {
    lost_ += lost;
    seen_ += seen;
  }
  bool many() const { return seen_ >= kEnough && lost_ * kMany > seen_; }

 private:
  // One query in so many is asked about, after the first; one in so many that lost rows is many.
  static constexpr std::size_t kEnough = 16, kOneIn = 32, kMany = 10;

  std::size_t lost_ = 0, seen_ = 0, unasked_ = 0;  // queries
};

}  // namespace warplite::engine

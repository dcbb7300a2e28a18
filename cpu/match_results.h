// The k best rows of each query of a search by match count, which the search's threads share.
// Threads: any.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <vector>

#include "compute/match.h"
#include "core/topk.h"

namespace warplite::cpu {

// Which rows may still enter the k best: those that count more than `floor`, and as many as that
// with a rowid up to `last`.
struct Bar {
  std::uint32_t floor;
  RowId last = std::numeric_limits<RowId>::max();
};

class MatchResults {
 public:
  MatchResults(const compute::MatchWork& work, compute::HitTable& best)
      : best_(best), bars_(work.queries(), Bar{std::max<std::uint32_t>(work.least, 1)}) {
    for (std::size_t q = 0; q < work.queries(); ++q) raise(q);
  }

  std::size_t k() const { return best_.k(); }
  Bar bar(std::size_t q) {
    const std::lock_guard<std::mutex> lock(mutex_of(q));
    return bars_[q];
  }

  // Rows `first` + places[i], which count counts[places[i]]. `floor`: one that as many as k of them
  // reach, or 0.
  template <class Count>
  void add(std::size_t q, const compute::MatchTile& tile, std::uint32_t first,
           std::span<const std::uint32_t> places, const Count* counts, std::uint32_t floor) {
    const std::lock_guard<std::mutex> lock(mutex_of(q));
    const Bar bar = bars_[q];
    TopK& best = best_.row(q);
    for (const std::uint32_t place : places) {
      const std::uint32_t row = first + place;
      const RowId rowid = tile.rowids[row];
      if (counts[place] <= bar.floor && (counts[place] < bar.floor || rowid > bar.last)) continue;
      best.push({-static_cast<double>(counts[place]), rowid, tile.id, row});
    }
    if (floor > bar.floor) bars_[q] = {floor};
    raise(q);
  }

 private:
  std::mutex& mutex_of(std::size_t q) { return mutexes_[q % mutexes_.size()]; }

  // To what the hits say.
  void raise(std::size_t q) {
    TopK& best = best_.row(q);
    RowId last = std::numeric_limits<RowId>::max();
    if (best.k() <= kMostSorted) {
      const std::vector<Hit>& hits = best.sorted();
      if (hits.size() == best.k()) last = hits.back().rowid;
    }
    constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
    const double floor = std::ceil(-best.threshold());  // −∞ before there are k
    if (floor < bars_[q].floor) return;
    // A distance between two counts has no ties.
    if (floor != -best.threshold()) last = std::numeric_limits<RowId>::max();
    bars_[q] = {static_cast<std::uint32_t>(std::min(floor, kMost)), last};
  }

  // Hits that are sorted whenever there are new ones, so that the last of them is known.
  static constexpr std::size_t kMostSorted = 1024;

  compute::HitTable& best_;
  std::vector<Bar> bars_;
  std::array<std::mutex, 64> mutexes_;
};

}  // namespace warplite::cpu

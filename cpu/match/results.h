// The k best rows of each query of a search by match count, which the search's threads share.
// Threads: any.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "compute/ops.h"
#include "core/topk.h"

namespace warplite::cpu {

// A Bar says which rows may still enter the k best: those that count more than `floor`, and as many
// as that with a rowid up to `last`.
struct Bar {
  std::uint32_t floor;
  RowId last = std::numeric_limits<RowId>::max();
};

struct RowCount {
  std::uint32_t row, count;
};

class MatchResults {
 public:
  // `least`: rows that count less are no results.
  MatchResults(std::uint32_t least, compute::HitTable& best)
      : best_(best), bars_(best.queries(), Bar{std::max<std::uint32_t>(least, 1)}) {
    for (std::size_t q = 0; q < best.queries(); ++q) raise(q);
  }

  std::size_t k() const { return best_.k(); }
  Bar bar(std::size_t q) {
    const std::lock_guard<std::mutex> lock(mutex_of(q));
    return bars_[q];
  }

  // n rows of a tile (of MatchWork or CodeWork), of which get(i) is a RowCount; those that count 0
  // are none. `floor`: one that as many as k of them reach, or 0.
  template <class Tile, class Get>
  void add(std::size_t q, const Tile& tile, std::size_t n, const Get& get, std::uint32_t floor) {
    const std::lock_guard<std::mutex> lock(mutex_of(q));
    const Bar bar = bars_[q];
    TopK& best = best_.row(q);
    for (std::size_t i = 0; i < n; ++i) {
      const RowCount some = get(i);
      const RowId rowid = tile.rowids[some.row];
      if (some.count <= bar.floor && (some.count < bar.floor || rowid > bar.last)) continue;
      best.push({-static_cast<double>(some.count), rowid, tile.id, some.row});
    }
    if (floor > bar.floor) bars_[q] = {floor};
    raise(q);
  }

 private:
  std::mutex& mutex_of(std::size_t q) { return mutexes_[q % mutexes_.size()]; }

  // Raises the bar of a query to what its hits say.
  void raise(std::size_t q) {
    TopK& best = best_.row(q);
    RowId last = std::numeric_limits<RowId>::max();
    if (best.k() <= kMostSorted) {
      const std::span<const Hit> hits = best.sorted();
      const bool full = hits.size() == best.k();
      if (full && hits.back().distance == best.threshold()) last = hits.back().rowid;
    }
    constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
    const double floor = std::ceil(-best.threshold());  // −∞ before there are k
    if (floor < bars_[q].floor) return;
    // A distance between two counts has no ties.
    if (floor != -best.threshold()) last = std::numeric_limits<RowId>::max();
    bars_[q] = {static_cast<std::uint32_t>(std::min(floor, kMost)), last};
  }

  // Hits that are sorted whenever there are new ones, so that the last of them is known. To sort more takes
  // longer than what is passed over by that.
  static constexpr std::size_t kMostSorted = 128;

  compute::HitTable& best_;
  std::vector<Bar> bars_;
  std::array<std::mutex, 64> mutexes_;
};

}  // namespace warplite::cpu

// Collects what a search of sparse vectors has found, which its threads share.
// Threads: any; made by one.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "compute/sparse.h"

namespace warplite::compute {

class SparseResults {
 public:
  SparseResults(const SparseWork& work, HitTable& best)
      : SparseResults(work, &best, nullptr) {}
  SparseResults(const SparseWork& work, HitLists& all)
      : SparseResults(work, nullptr, &all) {}

  // How many rows of a query are looked for; 0: all within the range.
  std::size_t k() const { return best_ == nullptr ? 0 : best_->k(); }
  // Returns a distance that no hit of the query exceeds.
  double limit(std::size_t q) const { return limits_[q].load(std::memory_order_relaxed); }

  void add(std::size_t q, std::span<const Hit> hits) {
    if (hits.empty()) return;
    const std::lock_guard<std::mutex> lock(mutexes_[q % mutexes_.size()]);
    for (const Hit& hit : hits) {
      if (!range_.contains(hit.distance)) continue;
      if (all_ != nullptr) {
        (*all_)[q].push_back(hit);
      } else {
        best_->row(q).push(hit);
      }
    }
    if (all_ == nullptr) lower_limit(q, hits.size());
  }

 private:
  SparseResults(const SparseWork& work, HitTable* best, HitLists* all)
      : range_(work.range), best_(best), all_(all), limits_(work.queries.size()), unsorted_(limits_.size()) {
    for (std::size_t q = 0; q < limits_.size(); ++q) {
      limits_[q] = range_.high;
      if (best_ != nullptr) lower_limit(q, 0);
    }
  }

  // `came`: hits that are new.
  void lower_limit(std::size_t q, std::size_t came) {
    TopK& best = best_->row(q);
    unsorted_[q] += came;
    if (best.k() <= kMostSorted || unsorted_[q] >= best.k() / kSortedParts) {
      best.sorted();
      unsorted_[q] = 0;
    }
    limits_[q] = std::min(limits_[q].load(), best.threshold());
  }

  // Hits are sorted whenever there are new ones, so that the last of them is known; of many, when this part of them
  // is new.
  static constexpr std::size_t kMostSorted = 1024, kSortedParts = 8;

  const DistanceRange& range_;
  HitTable* const best_;
  HitLists* const all_;
  std::vector<std::atomic<double>> limits_;
  std::vector<std::size_t> unsorted_;  // hits that came since, of each query
  std::array<std::mutex, 64> mutexes_;
};

}  // namespace warplite::compute

// Collects what a search by edit distance has found, which its threads share.
// Threads: any.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "compute/edit.h"
#include "core/topk.h"

namespace warplite::cpu {

class EditResults {
 public:
  EditResults(const compute::EditWork& work, compute::HitTable& best)
      : EditResults(work, &best, nullptr) {}
  EditResults(const compute::EditWork& work, compute::HitLists& all)
      : EditResults(work, nullptr, &all) {}

  // Returns a distance that no hit of the query exceeds; −1: there can be no hit.
  std::int64_t limit(std::size_t q) const { return limits_[q].load(std::memory_order_relaxed); }

  // Until the next call, only hits farther than `known` are added, up to `reach`: nearer hits are
  // there already. REQUIRES: nobody adds meanwhile.
  void set_band(std::size_t q, std::int64_t known, std::int64_t reach = kMost) {
    bands_[q] = {known, reach};
  }

  void add(std::size_t q, std::span<const Hit> hits) {
    const std::lock_guard<std::mutex> lock(mutexes_[q % mutexes_.size()]);
    const auto known = static_cast<double>(bands_[q].known);
    const auto reach = static_cast<double>(bands_[q].reach);
    for (const Hit& hit : hits) {
      if (!range_.contains(hit.distance)) continue;
      if (hit.distance <= known || hit.distance > reach) continue;
      if (all_ != nullptr) {
        (*all_)[q].push_back(hit);
      } else {
        best_->row(q).push(hit);
      }
    }
    if (all_ == nullptr) lower_limit(q);
  }

 private:
  static constexpr std::int64_t kMost = 1LL << 40;
  struct Band {
    std::int64_t known = -1, reach = kMost;
  };

  EditResults(const compute::EditWork& work, compute::HitTable* best, compute::HitLists* all)
      : range_(work.range), best_(best), all_(all), limits_(work.queries()),
        bands_(work.queries()) {
    for (std::size_t q = 0; q < work.queries(); ++q) {
      limits_[q] = whole(range_.high);
      if (best_ != nullptr) lower_limit(q);
    }
  }

  // The largest distance that is no greater.
  static std::int64_t whole(double distance) {
    constexpr auto kFarthest = static_cast<double>(kMost);
    return static_cast<std::int64_t>(std::floor(std::clamp(distance, -1.0, kFarthest)));
  }

  void lower_limit(std::size_t q) {
    TopK& best = best_->row(q);
    if (best.k() <= kMostSorted) best.sorted();
    limits_[q] = std::min(limits_[q].load(), whole(best.threshold()));
  }

  // Hits that are sorted whenever there are new ones, so that the last of them is known. To sort more takes
  // longer than what is passed over by that.
  static constexpr std::size_t kMostSorted = 128;

  const DistanceRange& range_;
  compute::HitTable* const best_;
  compute::HitLists* const all_;
  std::vector<std::atomic<std::int64_t>> limits_;
  std::vector<Band> bands_;
  std::array<std::mutex, 64> mutexes_;
};

}  // namespace warplite::cpu

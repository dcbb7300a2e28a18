// The k smallest hits of a stream, in O(n + k log k) for any k: candidates below
// the threshold are buffered, and a full buffer is cut back by selection. A
// bounded heap costs O(n log k), which shows at k in the thousands.
// Not thread-safe: one per thread, then merge().
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "core/types.h"

namespace warplite {

class TopK {
 public:
  explicit TopK(std::size_t k) : k_(k), limit_(std::max<std::size_t>(2 * k, k + 8)) {}

  std::size_t k() const { return k_; }
  // Returns the distance beyond which no hit can be among the k nearest; one at exactly this
  // distance can (by rowid).
  double threshold() const { return threshold_; }
  // Lowers the threshold to a bound known from elsewhere (another thread).
  void tighten(double bound) { threshold_ = std::min(threshold_, bound); }

  void push(const Hit& hit) {
    if (!(hit.distance <= threshold_) || k_ == 0) return;
    // Hits that come nearest first, as from a device that sorts, need no more.
    if (hits_.capacity() == 0) hits_.reserve(std::min<std::size_t>(k_, kReserved));
    in_order_ = in_order_ && (hits_.empty() || !kNearer(hit, hits_.back()));
    hits_.push_back(hit);
    if (hits_.size() >= limit_) shrink();
  }

  // Of those that sorted() would show.
  std::size_t count() const { return std::min(hits_.size(), k_); }
  // Hits that turned out to be of no use were dropped this many times.
  std::size_t cuts() const { return cuts_; }
  // A distance that `count` of the hits do not exceed. REQUIRES: 0 < count, cuts() > 0, count <= k.
  double distance_of(std::size_t count) {
    keys_.clear();
    keys_.reserve(hits_.size());
    for (const Hit& hit : hits_) keys_.push_back(hit.distance);
    const auto key = keys_.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(keys_.begin(), key, keys_.end());
    return *key;
  }

  // The k nearest so far, nearest first. The object remains usable.
  const std::vector<Hit>& sorted() {
    if (hits_.size() > k_) shrink();
    if (!in_order_) std::sort(hits_.begin(), hits_.end(), kNearer);
    in_order_ = true;
    if (hits_.size() == k_ && k_ > 0) threshold_ = std::min(threshold_, hits_.back().distance);
    return hits_;
  }

  void merge(const TopK& other) {
    for (const Hit& hit : other.hits_) push(hit);
  }
  // The same for less where there is nothing yet.
  void merge(TopK&& other) {
    if (hits_.empty() && k_ == other.k_ && other.threshold_ <= threshold_) {
      *this = std::move(other);
    } else {
      merge(static_cast<const TopK&>(other));
    }
  }

 private:
  static constexpr std::size_t kReserved = 1 << 16;

  // Hit's order without a branch, which selection could not predict. No function: algorithms
  // would call it through a pointer.
  static constexpr auto kNearer = [](const Hit& a, const Hit& b) -> bool {
    return static_cast<int>(a.distance < b.distance) |
           (static_cast<int>(a.distance == b.distance) & static_cast<int>(a.rowid < b.rowid));
  };

  // Keeps the k nearest, in any order. Selects among distances alone, which are a
  // third of the bytes, and looks at rowids only where ties straddle the end.
  void shrink() {
    ++cuts_;
    if (in_order_) {
      hits_.resize(k_);
      threshold_ = std::min(threshold_, hits_.back().distance);
      return;
    }
    const double kth = distance_of(k_);
    const auto ties = std::partition(hits_.begin(), hits_.end(),
                                     [kth](const Hit& hit) { return hit.distance < kth; });
    const auto end = std::partition(ties, hits_.end(),
                                    [kth](const Hit& hit) { return hit.distance == kth; });
    std::nth_element(ties, hits_.begin() + static_cast<std::ptrdiff_t>(k_), end, kNearer);
    hits_.resize(k_);
    threshold_ = std::min(threshold_, kth);
  }

  std::size_t k_;
  std::size_t limit_;
  std::size_t cuts_ = 0;
  double threshold_ = std::numeric_limits<double>::infinity();
  bool in_order_ = true;  // hits_ came nearest first, as from a device that sorts
  std::vector<Hit> hits_;
  std::vector<double> keys_;  // of distance_of()
};

}  // namespace warplite

// The k smallest hits of a stream, in O(n + k log k) for any k: candidates below
// the threshold are buffered, and a full buffer is cut back by selection. A
// bounded heap costs O(n log k), which shows at k in the thousands.
// Not thread-safe: one per thread, then merge().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/types.h"

namespace warplite {

// A vector of hits in memory that is lent, as long as that suffices, and then in its own.
class HitVector {
 public:
  // `lent`: of `room` hits, and outlives this; or null.
  HitVector(Hit* lent, std::size_t room) : hits_(lent), room_(lent != nullptr ? room : 0) {}
  HitVector(HitVector&& other) : HitVector(nullptr, 0) { *this = std::move(other); }
  // Takes the other's own memory; copies what lies in lent memory.
  HitVector& operator=(HitVector&& other) {
    if (other.own_ == nullptr) {
      size_ = 0;
      if (room_ < other.size_) reserve(other.size_);
      std::copy_n(other.hits_, other.size_, hits_);
    } else {
      own_ = std::move(other.own_);
      hits_ = std::exchange(other.hits_, nullptr);
      room_ = std::exchange(other.room_, 0);
    }
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  Hit* begin() { return hits_; }
  Hit* end() { return hits_ + size_; }
  const Hit* begin() const { return hits_; }
  const Hit* end() const { return hits_ + size_; }
  const Hit& back() const { return hits_[size_ - 1]; }
  std::size_t size() const { return size_; }
  std::size_t room() const { return room_; }
  bool empty() const { return size_ == 0; }

  // REQUIRES: size() < room()
  void push_back(const Hit& hit) { hits_[size_++] = hit; }
  // REQUIRES: size <= size()
  void cut(std::size_t size) { size_ = size; }
  // REQUIRES: room > room()
  void reserve(std::size_t room) {
    auto own = std::make_unique_for_overwrite<Hit[]>(room);
    std::copy_n(hits_, size_, own.get());
    own_ = std::move(own);
    hits_ = own_.get();
    room_ = room;
  }

 private:
  Hit* hits_;
  std::size_t size_ = 0, room_;
  std::unique_ptr<Hit[]> own_;
};

class TopK {
 public:
  // `room`: memory of k hits that outlives this, which saves it memory of its own; or null.
  explicit TopK(std::size_t k, Hit* room = nullptr) : k_(k), hits_(room, k) {}

  std::size_t k() const { return k_; }
  // Returns the distance beyond which no hit can be among the k nearest; one at exactly this
  // distance can (by rowid).
  double threshold() const { return threshold_; }
  // Lowers the threshold to a bound known from elsewhere (another thread).
  void tighten(double bound) { threshold_ = std::min(threshold_, bound); }

  void push(const Hit& hit) {
    if (!(hit.distance <= threshold_) || k_ == 0) return;
    if (hits_.size() == hits_.room()) hits_.reserve(more_room());
    in_order_ = in_order_ && (hits_.empty() || !kNearer(hit, hits_.back()));
    hits_.push_back(hit);
    // Of hits that come nearest first, as from a device that sorts, no more are taken than k and ties.
    if (in_order_ && hits_.size() == k_) threshold_ = std::min(threshold_, hit.distance);
    if (hits_.size() >= limit()) shrink();
  }

  // Of those that sorted() would show.
  std::size_t count() const { return std::min(hits_.size(), k_); }
  // Hits that turned out to be of no use were dropped this many times.
  std::size_t cuts() const { return cuts_; }
  // A distance that `count` of the hits do not exceed. REQUIRES: 0 < count, cuts() > 0, count <= k.
  double distance_of(std::size_t count) {
    if (keys_ == nullptr) keys_ = std::make_unique_for_overwrite<double[]>(limit());
    double* const keys = keys_.get();
    double* const end = std::transform(hits_.begin(), hits_.end(), keys,
                                       [](const Hit& hit) { return hit.distance; });
    std::nth_element(keys, keys + count - 1, end);
    return keys[count - 1];
  }

  // The k nearest so far, nearest first, until something is pushed. The object remains usable.
  std::span<const Hit> sorted() {
    if (hits_.size() > k_) shrink();
    if (!in_order_) std::sort(hits_.begin(), hits_.end(), kNearer);
    in_order_ = true;
    if (hits_.size() == k_ && k_ > 0) threshold_ = std::min(threshold_, hits_.back().distance);
    return {hits_.begin(), hits_.size()};
  }
  // The same, which outlives this.
  std::vector<Hit> list() {
    const std::span<const Hit> hits = sorted();
    return {hits.begin(), hits.end()};
  }

  // Calls change(hit) for each, which may say otherwise where the row is, but not which one.
  template <typename Change>
  void for_each(const Change& change) {
    for (Hit& hit : hits_) change(hit);
  }

  void merge(const TopK& other) {
    for (const Hit& hit : other.hits_) push(hit);
  }
  // Says whether to merge the other is to become it.
  bool becomes(const TopK& other) const {
    return hits_.empty() && k_ == other.k_ && other.threshold_ <= threshold_;
  }
  // The same for less where there is nothing yet.
  void merge(TopK&& other) {
    if (becomes(other)) {
      *this = std::move(other);
    } else {
      merge(static_cast<const TopK&>(other));
    }
  }

 private:
  static constexpr std::size_t kReserved = 1 << 16;

  // With so many hits those that are of no use are dropped.
  std::size_t limit() const { return std::max<std::size_t>(2 * k_, k_ + 8); }
  // Few are to have enough at once, while k may be more than there ever are.
  std::size_t more_room() const {
    return std::min(limit(), std::max(std::min(k_, kReserved), 2 * hits_.room() + 8));
  }

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
      hits_.cut(k_);
      threshold_ = std::min(threshold_, hits_.back().distance);
      return;
    }
    const double kth = distance_of(k_);
    Hit* const ties = std::partition(hits_.begin(), hits_.end(),
                                     [kth](const Hit& hit) { return hit.distance < kth; });
    Hit* const end = std::partition(ties, hits_.end(),
                                    [kth](const Hit& hit) { return hit.distance == kth; });
    std::nth_element(ties, hits_.begin() + k_, end, kNearer);
    hits_.cut(k_);
    threshold_ = std::min(threshold_, kth);
  }

  std::size_t k_;
  double threshold_ = std::numeric_limits<double>::infinity();
  HitVector hits_;
  std::unique_ptr<double[]> keys_;  // of distance_of()
  std::uint32_t cuts_ = 0;
  bool in_order_ = true;  // hits_ came nearest first, as from a device that sorts
};

}  // namespace warplite

// A bounded min-max heap (Atkinson, Sack, Santoro and Strothotte, 1986): the `bound` least of what
// was pushed, with the greatest of them at hand as a threshold, and the least. Levels take turns: a
// value on an even level is the least of its subtree, one on an odd level the greatest. To take
// values out in order costs twice what a sort does (bench/NOTES.md), so they leave unsorted.
// Not thread-safe: one per thread.
#pragma once

#include <bit>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace warplite {

template <class T, class Less = std::less<T>>
class MinMaxHeap {
 public:
  explicit MinMaxHeap(std::size_t bound, Less less = {}) : bound_(bound), less_(less) {}

  bool full() const { return values_.size() >= bound_; }

  // Empty again, with another bound; the memory is kept.
  void reset(std::size_t bound) {
    bound_ = bound;
    values_.clear();
  }

  // Keeps the value if it is among the `bound` least so far. The heap takes shape with the value
  // that fills it, all at once, which costs less than one by one.
  void push(const T& value) {
    if (values_.size() < bound_) {
      values_.push_back(value);
      if (full()) shape();
    } else if (bound_ != 0 && less_(value, max())) {
      replace_max(value);
    }
  }

  // The greatest. REQUIRES: full(), bound > 0.
  const T& max() const { return values_[greatest()]; }
  // Returns the values in the order of the heap: the least is the first, once it is full.
  const std::vector<T>& values() const { return values_; }

 private:
  static bool on_min_level(std::size_t at) { return std::bit_width(at + 1) % 2 == 1; }

  std::size_t greatest() const {
    if (values_.size() < 3) return values_.size() - 1;
    return less_(values_[1], values_[2]) ? 2 : 1;
  }

  void shape() {
    for (std::size_t at = values_.size() / 2; at-- > 0;) {
      on_min_level(at) ? sink<true>(at) : sink<false>(at);
    }
  }

  void replace_max(const T& value) {
    const std::size_t at = greatest();
    values_[at] = value;
    if (at == 0) return;
    if (less_(value, values_[0])) std::swap(values_[at], values_[0]);
    sink<false>(at);
  }

  // kMin: the value at `at` becomes the least of its subtree, else the greatest.
  template <bool kMin>
  bool before(std::size_t a, std::size_t b) const {
    return kMin ? less_(values_[a], values_[b]) : less_(values_[b], values_[a]);
  }

  template <bool kMin>
  void sink(std::size_t at) {
    const std::size_t n = values_.size();
    while (2 * at + 1 < n) {
      const std::size_t best = first_below<kMin>(at);
      if (!before<kMin>(best, at)) return;
      std::swap(values_[best], values_[at]);
      if (best <= 2 * at + 2) return;  // a child: its own children are on the other side of it
      const std::size_t parent = (best - 1) / 2;
      if (before<kMin>(parent, best)) std::swap(values_[parent], values_[best]);
      at = best;
    }
  }

  // Returns which of the children and grandchildren belongs first.
  template <bool kMin>
  std::size_t first_below(std::size_t at) const {
    const std::size_t n = values_.size(), child = 2 * at + 1, grandchild = 4 * at + 3;
    std::size_t best = child;
    if (child + 1 < n && before<kMin>(child + 1, best)) best = child + 1;
    for (std::size_t i = grandchild; i < n && i < grandchild + 4; ++i) {
      if (before<kMin>(i, best)) best = i;
    }
    return best;
  }

  std::size_t bound_;
  Less less_;
  std::vector<T> values_;
};

}  // namespace warplite

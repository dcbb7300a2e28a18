// The best rows of a query by (score, ordinal), as compute/ivf.h orders them: one integer each.
// Not thread-safe: one per thread, then merge().
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace warplite::cpu {

class Candidates {
 public:
  explicit Candidates(std::size_t keep)
      : keep_(keep), most_(keep + std::max<std::size_t>(keep, 32)) {
    keys_.reserve(std::min(most_, kReserved));
  }

  // Rows with a greater score are of no use; with this one they may be.
  float limit() const { return limit_; }

  std::size_t keep() const { return keep_; }
  // Lowers limit() to the worst of those that are kept, where there are more.
  void tighten() {
    if (keys_.size() > keep_) cut();
  }

  void push(float score, std::uint32_t ordinal) { push(key(score, ordinal)); }
  void merge(const Candidates& other) {
    if (other.bound_ < bound_) {
      bound_ = other.bound_;
      limit_ = other.limit_;
    }
    for (const std::uint64_t key : other.keys_) push(key);
  }
  void clear() {
    keys_.clear();
    bound_ = ~std::uint64_t{0};
    limit_ = std::numeric_limits<float>::infinity();
  }

  // The score from which on rows were dropped; +∞: none was.
  float left() {
    if (keys_.size() > keep_) cut();
    return limit_;
  }
  // The best, by ordinal.
  std::vector<std::uint64_t>& by_ordinal() {
    if (keys_.size() > keep_) cut();
    std::sort(keys_.begin(), keys_.end(),
              [](std::uint64_t a, std::uint64_t b) { return ordinal_of(a) < ordinal_of(b); });
    return keys_;
  }
  // The best, best first.
  std::vector<std::uint64_t>& by_score() {
    if (keys_.size() > keep_) cut();
    std::sort(keys_.begin(), keys_.end());
    return keys_;
  }
  // NaN counts as infinity.
  static std::uint64_t key(float score, std::uint32_t ordinal) {
    if (std::isnan(score)) score = std::numeric_limits<float>::infinity();
    return std::uint64_t{ascending(score)} << 32 | ordinal;
  }
  static std::uint32_t ordinal_of(std::uint64_t key) { return static_cast<std::uint32_t>(key); }
  static float score_of(std::uint64_t key) {
    const std::uint32_t bits = static_cast<std::uint32_t>(key >> 32);
    return std::bit_cast<float>((bits & kSign) != 0 ? bits ^ kSign : ~bits);
  }

 private:
  static constexpr std::size_t kReserved = 1 << 10;  // all of them may be many
  static constexpr std::uint32_t kSign = 0x80000000u;

  // Integers in the order of the floats. REQUIRES: not NaN; −0 comes before 0.
  static std::uint32_t ascending(float score) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(score);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  }

  void push(std::uint64_t key) {
    if (key > bound_) return;
    keys_.push_back(key);
    if (keys_.size() >= most_) cut();
  }

  void cut() {
    const auto last = keys_.begin() + static_cast<std::ptrdiff_t>(keep_ - 1);
    std::nth_element(keys_.begin(), last, keys_.end());
    keys_.resize(keep_);
    bound_ = keys_.back();
    limit_ = score_of(bound_);
  }

  std::size_t keep_, most_;
  std::uint64_t bound_ = ~std::uint64_t{0};
  float limit_ = std::numeric_limits<float>::infinity();
  std::vector<std::uint64_t> keys_;
};

}  // namespace warplite::cpu

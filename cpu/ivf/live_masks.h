// The rows of a run that take part in searches by one filter, by position and by list: made when a
// filter comes for the second time (compute::IvfWork::filter), or for enough queries at once, and kept with
// the run for some filters. Threads: any.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "compute/ivf.h"

namespace warplite::cpu {

// The groups any of whose rows take part, from bits of their rows. There is no branch for each group: it
// would be foreseen wrongly time and again.
class LiveGroups {
 public:
  // A bit for each of at most 32 groups.
  static std::uint32_t bits(const std::uint32_t* live, std::size_t groups) {
    std::uint32_t bits = 0;
    for (std::size_t g = 0; g < groups; ++g) bits |= (live[g] != 0 ? 1u : 0u) << g;
    return bits;
  }

  LiveGroups(const std::uint32_t* live, std::size_t groups) : live_(live), groups_(groups) {}

  class Iterator {
   public:
    Iterator(const LiveGroups& all, std::size_t first) : all_(all), first_(first) { look(); }
    std::size_t operator*() const {
      return first_ + static_cast<std::size_t>(std::countr_zero(bits_));
    }
    Iterator& operator++() {
      bits_ &= bits_ - 1;
      if (bits_ == 0) {
        first_ += kBits;
        look();
      }
      return *this;
    }
    bool operator!=(const Iterator& other) const { return first_ < other.first_; }

   private:
    void look() {
      for (bits_ = 0; first_ < all_.groups_; first_ += kBits) {
        bits_ = bits(all_.live_ + first_, std::min(kBits, all_.groups_ - first_));
        if (bits_ != 0) break;
      }
    }
    static constexpr std::size_t kBits = 32;
    const LiveGroups& all_;
    std::size_t first_;
    std::uint32_t bits_ = 0;  // of those from first_ on
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, groups_}; }

 private:
  const std::uint32_t* live_;
  std::size_t groups_;
};

class LiveMasks {
 public:
  struct Masks {
    std::vector<std::uint32_t> groups;       // of each group of positions, a bit a row
    std::vector<compute::ProbedList> lists;  // counted

    std::size_t bytes() const {
      return groups.size() * sizeof(groups[0]) + lists.size() * sizeof(lists[0]);
    }
  };

  // Null: the filter comes for the first time, and not `at_once`. `make` returns the masks.
  template <class Make>
  std::shared_ptr<const Masks> get(std::uint64_t filter, bool at_once, const Make& make) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(known_.begin(), known_.end(),
                                    [&](const Known& known) { return known.filter == filter; });
    if (found == known_.end()) {
      known_.insert(known_.begin(), {filter, nullptr});
      if (known_.size() > kMost) known_.pop_back();
      if (!at_once) return nullptr;
    } else {
      std::rotate(known_.begin(), found, found + 1);
    }
    std::shared_ptr<const Masks> masks = known_.front().masks;
    if (masks != nullptr) return masks;
    known_.front().masks = masks = std::make_shared<const Masks>(make());
    forget_some();
    return masks;
  }

 private:
  // Filters that are known, and masks of them: these take memory, so that of long runs few are kept.
  static constexpr std::size_t kMost = 64, kLeastMasks = 8, kMostBytes = std::size_t{1} << 22;
  struct Known {
    std::uint64_t filter;
    std::shared_ptr<const Masks> masks;
  };

  void forget_some() {
    std::size_t masks = 0, bytes = 0;
    for (Known& known : known_) {
      if (known.masks == nullptr) continue;
      bytes += known.masks->bytes();
      if (++masks > kLeastMasks && bytes > kMostBytes) known.masks = nullptr;
    }
  }

  std::mutex mutex_;
  std::vector<Known> known_;  // used last first
};

}  // namespace warplite::cpu

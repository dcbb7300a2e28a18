// The rows of a run that take part in searches by one filter, by position: made when a filter comes
// for the second time (compute::IvfWork::filter), and kept with the run for some filters. Threads:
// any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace warplite::cpu {

class LiveMasks {
 public:
  using Masks = std::vector<std::uint32_t>;  // of each group of positions, a bit a row

  // Null: the filter comes for the first time. `make` returns the masks.
  template <class Make>
  std::shared_ptr<const Masks> get(std::uint64_t filter, const Make& make) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(known_.begin(), known_.end(),
                                    [&](const Known& known) { return known.filter == filter; });
    if (found == known_.end()) {
      known_.insert(known_.begin(), {filter, nullptr});
      if (known_.size() > kMost) known_.pop_back();
      return nullptr;
    }
    std::rotate(known_.begin(), found, found + 1);
    std::shared_ptr<const Masks>& masks = known_.front().masks;
    if (masks == nullptr) masks = std::make_shared<const Masks>(make());
    return masks;
  }

 private:
  static constexpr std::size_t kMost = 8;
  struct Known {
    std::uint64_t filter;
    std::shared_ptr<const Masks> masks;
  };

  std::mutex mutex_;
  std::vector<Known> known_;  // used last first
};

}  // namespace warplite::cpu

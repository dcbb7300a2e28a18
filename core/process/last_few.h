// The last few things that searches made for those that come after, by their keys.
// Threads: any. Ownership: shared with whoever uses them.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace warplite {

// T::key says what it was made for.
template <typename T>
class LastFew {
 public:
  // Null: there is none.
  std::shared_ptr<const T> find(const decltype(T::key)& key) {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(known_.begin(), known_.end(),
                                    [&](const auto& one) { return one->key == key; });
    if (known == known_.end()) return nullptr;
    std::rotate(known, known + 1, known_.end());
    return known_.back();
  }
  std::shared_ptr<const T> add(std::shared_ptr<const T> made) {
    const std::lock_guard lock(mutex_);
    if (known_.size() == kMost) known_.erase(known_.begin());
    return known_.emplace_back(std::move(made));
  }

 private:
  static constexpr std::size_t kMost = 8;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const T>> known_;  // that was used last comes last
};

}  // namespace warplite

// Residency, the blocks of files: what goes from memory since no file has it any more.
#include <algorithm>
#include <utility>

#include "engine/residency/residency_impl.h"

namespace warplite::engine {

// Evicts what nobody uses of what is made of these. True: something went, and what that held may go
// next.
bool Residency::Impl::evict_made_of(const std::vector<std::uint64_t>& sources, Evicted& out) {
  bool any = false;
  std::unordered_set<CacheKey, CacheKeyHash> busy;
  for (const std::uint64_t source : sources) {
    for (bool again = true; std::exchange(again, false);) {
      const auto [first, last] = made_of.equal_range(source);
      for (auto at = first; at != last; ++at) {
        if (at->second->in_use()) {
          busy.insert(at->second->key.key);
          if (!blocks.contains(source)) dying.insert(source);
        } else {
          evict(at->second, out);
          any = again = true;
          break;  // what was evicted is no longer in made_of
        }
      }
    }
  }
  return any || (!busy.empty() && drop_holders_of(busy));
}

// Together with what was still used when it was to go, as by a copy to a device under way.
void Residency::forget_made_of(std::vector<std::uint64_t> sources) {
  if (sources.empty()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    for (const std::uint64_t source : std::exchange(impl_->dying, {})) {
      if (!impl_->blocks.contains(source)) sources.push_back(source);
    }
  }
  for (bool again = true; again;) {
    Impl::Evicted evicted;
    const std::lock_guard lock(impl_->mutex);
    again = impl_->evict_made_of(sources, evicted);
  }
}

void Residency::hold(std::span<const CacheKey> blocks) {
  const std::lock_guard lock(impl_->mutex);
  for (const CacheKey& key : blocks) ++impl_->blocks[key.source].readers;
}

void Residency::let_go(std::span<const CacheKey> blocks) noexcept {
  try {
    std::vector<std::uint64_t> dead;
    dead.reserve(blocks.size());
    {
      const std::lock_guard lock(impl_->mutex);
      for (const CacheKey& key : blocks) {
        const auto block = impl_->blocks.find(key.source);
        if (block == impl_->blocks.end() || --block->second.readers != 0) continue;
        if (!block->second.in_file) dead.push_back(key.source);
        impl_->blocks.erase(block);
      }
    }
    forget_made_of(std::move(dead));
  } catch (...) {  // no memory for the list of them: it stays until something has to be evicted
  }
}

// Who begins to read an older version afterwards does not bring back what is gone.
void Residency::settle(std::span<const CacheKey> there, std::span<const CacheKey> gone) {
  std::vector<std::uint64_t> dead;
  for (const CacheKey& key : gone) dead.push_back(key.source);
  std::sort(dead.begin(), dead.end());
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->gone.size() > Impl::kMostGone) impl_->gone.clear();
    impl_->gone.insert(dead.begin(), dead.end());
    for (const std::uint64_t source : dead) {
      const auto block = impl_->blocks.find(source);
      if (block != impl_->blocks.end()) block->second.in_file = false;
    }
    for (const CacheKey& key : there) {
      // Of what has another name now, although it is made of the same block.
      if (std::binary_search(dead.begin(), dead.end(), key.source)) impl_->gone.erase(key.source);
      const auto block = impl_->blocks.find(key.source);
      if (block != impl_->blocks.end()) block->second.in_file = !impl_->gone.contains(key.source);
    }
  }
  forget_made_of(std::move(dead));
}

}  // namespace warplite::engine

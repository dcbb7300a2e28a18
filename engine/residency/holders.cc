// Residency, the holders: what searches keep together, as long as nothing has to be evicted.
#include <algorithm>
#include <utility>

#include "engine/residency/residency_impl.h"

namespace warplite::engine {

// `which`: a bool(const Holder&).
template <typename Which>
bool Residency::Impl::drop_idle_holders(const Which& which) {
  const auto idle = std::partition(holders.begin(), holders.end(), [&](const auto& holder) {
    return holder.use_count() > 1 || !which(*holder);
  });
  std::sort(idle, holders.end(), [](const auto& a, const auto& b) {
    return a->used_at_.load() < b->used_at_.load();
  });
  for (auto holder = idle; holder != holders.end(); ++holder) {
    for (const CacheKey& key : (*holder)->keys_) {
      const auto entry = touch({key, Kind::kVectors});
      if (entry == entries.end()) continue;
      const auto copy = entry->copy_on((*holder)->device_);
      if (copy == entry->copies.end()) continue;
      copy->used_at = std::max(copy->used_at, (*holder)->used_at_.load());
    }
  }
  const bool any = idle != holders.end();
  holders.erase(idle, holders.end());
  return any;
}

// Drops what only the cache holds; it counts as used when it was used last, the earliest first. Its
// entries stay: they may be evicted next. Allocates nothing, as eviction must not fail.
void Residency::Impl::drop_holders() {
  // Those that others held go in the next round.
  while (drop_idle_holders([](const Holder&) { return true; })) continue;
}

bool Residency::Impl::drop_holders_of(const std::unordered_set<CacheKey, CacheKeyHash>& keys) {
  return drop_idle_holders([&](const Holder& holder) {
    return std::any_of(holder.keys_.begin(), holder.keys_.end(),
                       [&](const CacheKey& key) { return keys.contains(key); });
  });
}

void Residency::keep(std::shared_ptr<Holder> holder) {
  use(*holder);
  const std::lock_guard lock(impl_->mutex);
  impl_->holders.push_back(std::move(holder));
}

void Residency::release(const Holder& holder) {
  std::shared_ptr<Holder> released;  // freed without the lock
  const std::lock_guard lock(impl_->mutex);
  const auto found = std::find_if(impl_->holders.begin(), impl_->holders.end(),
                                  [&](const auto& one) { return one.get() == &holder; });
  if (found == impl_->holders.end()) return;
  released = std::move(*found);
  impl_->holders.erase(found);
}

void Residency::use(Holder& holder) const { holder.used_at_ = ++impl_->clock; }

}  // namespace warplite::engine

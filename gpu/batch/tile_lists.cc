#include "gpu/batch/tile_lists.h"

#include <algorithm>

namespace warplite::gpu {

std::shared_ptr<const TileList> TileLists::find(const Key& key, Shadows& shadows) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(known_.begin(), known_.end(),
                                  [&](const Known& one) { return one.key == key; });
  if (known == known_.end()) return nullptr;
  shadows.clear();
  shadows.reserve(known->shadows.size());
  for (const std::weak_ptr<const Shadow>& shadow : known->shadows) {
    shadows.push_back(shadow.lock());
    if (shadows.back() != nullptr) continue;
    // Another buffer may lie where the one lay that these were made of.
    shadows.clear();
    known_.erase(known);
    return nullptr;
  }
  std::rotate(known, known + 1, known_.end());
  return known_.back().list;
}

void TileLists::add(Key key, const Shadows& shadows, std::shared_ptr<const TileList> list) {
  const std::lock_guard lock(mutex_);
  std::erase_if(known_, [&](const Known& one) { return one.key == key; });
  if (known_.size() == kMostLists) known_.erase(known_.begin());
  known_.push_back({std::move(key), {shadows.begin(), shadows.end()}, std::move(list)});
}

}  // namespace warplite::gpu

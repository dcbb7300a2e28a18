#include "engine/filter/text_set.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace warplite::engine {
namespace {

std::uint32_t hash_of(std::string_view text) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>()(text));
}

}  // namespace

std::size_t TextSet::find(std::string_view text, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].number != 0 &&
         (slots_[at].hash != hash || (*this)[slots_[at].number - 1] != text)) {
    at = (at + 1) & mask;
  }
  return at;
}

void TextSet::insert(std::string_view text) {
  if (size() * 2 >= slots_.size()) grow();
  const std::uint32_t hash = hash_of(text);
  Slot& slot = slots_[find(text, hash)];
  if (slot.number != 0) return;
  bytes_.append(text);
  ends_.push_back(bytes_.size());
  slot = {hash, static_cast<std::uint32_t>(size())};
}

bool TextSet::contains(std::string_view text) const {
  return !empty() && slots_[find(text, hash_of(text))].number != 0;
}

void TextSet::grow() {
  std::vector<Slot> slots(std::max<std::size_t>(16, slots_.size() * 2));
  const std::size_t mask = slots.size() - 1;
  for (const Slot& slot : slots_) {
    if (slot.number == 0) continue;
    std::size_t at = slot.hash & mask;
    while (slots[at].number != 0) at = (at + 1) & mask;
    slots[at] = slot;
  }
  slots_ = std::move(slots);
}

}  // namespace warplite::engine

#include "engine/filter/integer_set.h"

#include <bit>

namespace warplite::engine {

IntegerSet::IntegerSet(const std::vector<std::int64_t>& values) {
  const std::size_t size = std::bit_ceil(values.size() * 2 + 1);
  mask_ = size - 1;
  slots_.resize(size);
  filled_.resize(size);
  for (std::int64_t value : values) {
    std::size_t at = hash(value) & mask_;
    while (filled_[at] != 0 && slots_[at] != value) at = (at + 1) & mask_;
    slots_[at] = value;
    filled_[at] = 1;
  }
}

bool IntegerSet::contains(std::int64_t value) const {
  for (std::size_t at = hash(value) & mask_; filled_[at] != 0; at = (at + 1) & mask_) {
    if (slots_[at] == value) return true;
  }
  return false;
}

}  // namespace warplite::engine

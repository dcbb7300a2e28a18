#include "compute/sparse.h"

#include <algorithm>
#include <bit>

namespace warplite::compute {
namespace {

constexpr std::uint32_t kFree = 0xffffffff;

}  // namespace

SparseQuery::SparseQuery(const char* bytes) {
  SparseReader reader(bytes);
  entries_.reserve(reader.left());
  while (reader.left() != 0) entries_.push_back(reader.next());
  end_ = reader.end();
  // At most half full, so that most that is not there is missed at once.
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(2 * entries_.size(), 2));
  shift_ = 32 - static_cast<unsigned>(std::countr_zero(slots));
  slots_.assign(slots, {kFree, 0});
  for (const SparseEntry& entry : entries_) {
    std::size_t at = home(entry.index);
    while (slots_[at].index != kFree) at = (at + 1) & (slots - 1);
    slots_[at] = entry;
  }
}

double SparseQuery::distance(const char* bytes) const {
  double sum = 0;
  for (SparseReader reader(bytes); reader.left() != 0;) {
    const SparseEntry entry = reader.next();
    std::size_t at = home(entry.index);
    while (slots_[at].index != entry.index && slots_[at].index != kFree) {
      at = (at + 1) & (slots_.size() - 1);
    }
    if (slots_[at].index != kFree) {
      sum += static_cast<double>(slots_[at].value) * static_cast<double>(entry.value);
    }
  }
  return sum == 0 ? 0.0 : -sum;
}

}  // namespace warplite::compute

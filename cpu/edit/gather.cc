#include "cpu/edit/gather.h"

#include <algorithm>
#include <cstring>

namespace warplite::cpu {
namespace {

constexpr std::size_t kPlaces = compute::kEditGroup;

template <class Symbol>
void copy(const std::byte* from, std::byte* to, std::size_t length) {
  const auto* const read = reinterpret_cast<const Symbol*>(from);
  auto* const write = reinterpret_cast<Symbol*>(to);
  for (std::size_t i = 0; i < length; ++i) write[i * kPlaces] = read[i * kPlaces];
}

}  // namespace

void EditGather::add(const EditGroup& from, std::uint32_t width, int place) {
  const std::uint16_t length = from.lengths[place];
  if (length > longest_) {
    const std::size_t size = length * kPlaces * width, had = longest_ * kPlaces * width;
    if (symbols_.size() < size) symbols_.resize(size);
    std::memset(symbols_.data() + had, 0xff, size - had);
    longest_ = length;
  }
  const std::byte* const read = from.symbols + static_cast<std::size_t>(place) * width;
  std::byte* const write = symbols_.data() + count_ * width;
  if (width == 1) copy<std::uint8_t>(read, write, length);
  if (width == 2) copy<std::uint16_t>(read, write, length);
  if (width == 4) copy<std::uint32_t>(read, write, length);
  shortest_ = std::min<std::uint32_t>(shortest_, length);
  lengths_[count_] = length;
  rows_[count_++] = from.rows[place];
}

EditGroup EditGather::finish() {
  EditGroup group;
  group.symbols = symbols_.data();
  group.lengths = lengths_;
  group.rows = rows_;
  group.shortest = shortest_;
  group.longest = longest_;
  group.texts = count_ == kPlaces ? ~0u : (1u << count_) - 1;
  count_ = longest_ = 0;
  shortest_ = compute::kLongestEditText;
  return group;
}

}  // namespace warplite::cpu

#include "cpu/edit/masks.h"

#include <algorithm>
#include <utility>

namespace warplite::cpu {

void EditMasks::translate(std::vector<std::uint32_t> symbols, bool alone) {
  symbols_ = std::move(symbols);
  offsets_.resize(symbols_.size());
  made_.resize(symbols_.size());
  alone_ = alone;
  same_size_ = 0;
  forget();
}

void EditMasks::begin(const EditGroup& group, std::uint32_t width) {
  group_ = group;
  width_ = width;
  row_ = 0;
  forget();
}

void EditMasks::forget() {
  ++stripe_;
  found_ = 0;
}

void EditMasks::find(const EditKernels& kernels, std::size_t row,
                     std::span<const std::uint32_t> numbers) {
  if (row != row_ || found_ + numbers.size() > kMostMasks) forget();
  row_ = row;
  const std::size_t positions = std::min(group_.longest - row, kEditStripeRows);
  const std::size_t size = (positions + kEditBlockRows - 1) / kEditBlockRows * kEditBlockSize;
  const std::byte* const symbols = group_.symbols + row * kEditLanes * width_;
  const EditKernels::Find find_all = kernels.find[width_ / 2];
  if (alone_ && found_ == 0 && size == same_size_) {
    found_ = wanted_.size();
    return find_all(symbols, positions, wanted_.data(), found_, masks_.data() + size);
  }
  const std::size_t first = found_ + 1;  // after the zeros
  wanted_.clear();
  for (const std::uint32_t number : numbers) {
    if (made_[number] == stripe_) continue;
    made_[number] = stripe_;
    offsets_[number] = 0;
    if (symbols_[number] == kNoSymbol) continue;
    wanted_.push_back(symbols_[number]);
    offsets_[number] = static_cast<std::uint32_t>(++found_ * size);
  }
  if (masks_.size() < (found_ + 1) * size) masks_.resize((found_ + 1) * size);
  if (first == 1) std::fill_n(masks_.begin(), size, std::uint16_t{0});
  same_size_ = alone_ ? size : 0;
  find_all(symbols, positions, wanted_.data(), wanted_.size(), masks_.data() + first * size);
}

}  // namespace warplite::cpu

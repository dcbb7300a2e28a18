#include "cpu/edit_masks.h"

#include <algorithm>

namespace warplite::cpu {

void EditMasks::translate(const EditTileView& view, std::span<const std::uint32_t> points) {
  symbols_.resize(points.size());
  offsets_.resize(points.size());
  made_.resize(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) symbols_[i] = view.symbol(points[i]);
  forget();
}

void EditMasks::begin(const EditTileView& view, std::uint32_t group) {
  view_ = &view;
  group_ = group;
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
  const std::size_t positions = std::min(view_->longest(group_) - row, kEditStripeRows);
  const std::size_t size = (positions + kEditBlockRows - 1) / kEditBlockRows * kEditBlockSize;
  const std::size_t first = found_ + 1;  // after the zeros
  wanted_.clear();
  for (const std::uint32_t number : numbers) {
    if (made_[number] == stripe_) continue;
    made_[number] = stripe_;
    offsets_[number] = 0;
    if (symbols_[number] == EditTileView::kNone) continue;
    wanted_.push_back(symbols_[number]);
    offsets_[number] = static_cast<std::uint32_t>(++found_ * size);
  }
  if (masks_.size() < (found_ + 1) * size) masks_.resize((found_ + 1) * size);
  if (first == 1) std::fill_n(masks_.begin(), size, std::uint16_t{0});
  kernels.find[view_->tile().width / 2](
      view_->symbols(group_, static_cast<std::uint32_t>(row)), positions, wanted_.data(),
      wanted_.size(), masks_.data() + first * size);
}

}  // namespace warplite::cpu

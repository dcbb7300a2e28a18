#include "cpu/match/tile.h"

#include <algorithm>

namespace warplite::cpu {
namespace {

constexpr std::uint32_t kLongShare = 32;  // a long list has one row in this many
constexpr std::uint32_t kLeastLong = 64;
constexpr std::size_t kLine = 64;  // of a cache
constexpr std::size_t kPlaces = 16;

}  // namespace

void MatchTileView::lower_bounds(const compute::Keyword* keys, std::size_t n,
                                 std::uint32_t* first) const {
  std::fill_n(first, n, 0u);
  if (keywords_ == 0) return;
  for (std::size_t i = 0; i < n; i += kSearches, keys += kSearches, first += kSearches) {
    const std::size_t searches = std::min(n - i, kSearches);
    // Steps are as many for every key, and choose without a branch.
    for (std::uint32_t size = keywords_; size > 1;) {
      const std::uint32_t half = size / 2;
      for (std::size_t s = 0; s < searches; ++s) {
        first[s] += keys_[first[s] + half - 1] < keys[s] ? half : 0;
      }
      size -= half;
    }
    for (std::size_t s = 0; s < searches; ++s) first[s] += keys_[first[s]] < keys[s] ? 1 : 0;
  }
}

LongLists::LongLists(const MatchTileView& tile, std::uint32_t rows)
    : rows_(rows), long_from_(std::max(rows / kLongShare, kLeastLong)) {
  for (std::uint32_t i = 0; i < tile.keywords(); ++i) {
    if (tile.begin(i + 1) - tile.begin(i) >= long_from_) keywords_.push_back(i);
  }
  slots_.reset(new Slot[keywords_.size()]);
}

const std::uint8_t* LongLists::bitmap(const MatchTileView& tile, std::size_t i) const {
  // Many are read at once, so they begin at different places of the cache's ways.
  const auto begin = [i](std::uint8_t* memory) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    return memory + (kLine - address % kLine) % kLine + i % kPlaces * kLine;
  };
  std::atomic<std::uint8_t*>& slot = slots_[i].memory;
  std::uint8_t* seen = slot.load(std::memory_order_acquire);
  if (seen != nullptr) return begin(seen);
  const std::size_t size = padded(rows_) / 8;  // a whole strip needs no padding
  std::unique_ptr<std::uint8_t[]> made(new std::uint8_t[size + (kPlaces + 1) * kLine]());
  fill(tile, keywords_[i], begin(made.get()));
  // Another thread may have been faster.
  if (!slot.compare_exchange_strong(seen, made.get(), std::memory_order_acq_rel)) {
    return begin(seen);
  }
  return begin(made.release());
}

void LongLists::fill(const MatchTileView& tile, std::uint32_t keyword,
                     std::uint8_t* bitmap) const {
  const std::uint16_t* row = tile.rows() + tile.begin(keyword);
  const std::uint16_t* const end = tile.rows() + tile.begin(keyword + 1);
  for (std::uint32_t strip = 0; strip < rows_; strip += kStripRows, bitmap += kStripRows / 8) {
    const std::size_t stride = padded(std::min(rows_ - strip, kStripRows)) / 8;
    std::size_t first = strip;
    for (unsigned bit = 0; bit < 8; ++bit, first += stride) {
      for (; row != end && *row < first + stride; ++row) {
        bitmap[*row - first] |= static_cast<std::uint8_t>(1u << bit);
      }
    }
  }
}

}  // namespace warplite::cpu

#include "index/tiles/postings.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/error.h"

namespace warplite::index {
namespace {

using compute::Keyword;
using compute::TileLayout;

constexpr std::uint32_t kNone = 0xffffffffu;
constexpr unsigned kFirstBits = 12;

// The upper bits depend on every bit of the key.
std::uint64_t mix(Keyword key) {
  key ^= key >> 32;
  key *= 0x9e3779b97f4a7c15u;
  key ^= key >> 29;
  return key * 0xbf58476d1ce4e5b9u;
}

}  // namespace

PostingsBuilder::PostingsBuilder()
    : slots_(std::size_t{1} << kFirstBits, Slot{0, kNone}), shift_(64 - kFirstBits) {}

void PostingsBuilder::add_row(std::span<const Keyword> keywords) {
  WARP_CHECK(rows_ < compute::kTileRows);
  if (numbers_.size() + keywords.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kLimit, "a tile of postings holds fewer than 2^32 of them");
  }
  while ((last_rows_.size() + keywords.size()) * 4 > slots_.size() * 3) grow();
  // Slots are far apart: they are fetched together, then read.
  homes_.clear();
  for (const Keyword key : keywords) {
    homes_.push_back(home(key));
    __builtin_prefetch(&slots_[homes_.back()]);
  }
  for (std::size_t i = 0; i < keywords.size(); ++i) {
    const std::uint32_t number = number_of(keywords[i], homes_[i]);
    if (last_rows_[number] == rows_) continue;
    last_rows_[number] = rows_;
    numbers_.push_back(number);
  }
  row_ends_.push_back(numbers_.size());
  ++rows_;
}

std::size_t PostingsBuilder::home(Keyword key) const { return mix(key) >> shift_; }

std::uint32_t PostingsBuilder::number_of(Keyword key, std::size_t home) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = home;; slot = (slot + 1) & mask) {
    Slot& there = slots_[slot];
    if (there.number == kNone) {
      there = {key, static_cast<std::uint32_t>(last_rows_.size())};
      last_rows_.push_back(kNone);
      return there.number;
    }
    if (there.key == key) return there.number;
  }
}

void PostingsBuilder::grow() {
  std::vector<Slot> old(slots_.size() * 2, Slot{0, kNone});
  old.swap(slots_);
  --shift_;
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& taken : old) {
    if (taken.number == kNone) continue;
    std::size_t slot = home(taken.key);
    while (slots_[slot].number != kNone) slot = (slot + 1) & mask;
    slots_[slot] = taken;
  }
}

Postings PostingsBuilder::finish() {
  Postings out;
  out.keywords = static_cast<std::uint32_t>(last_rows_.size());
  out.postings = static_cast<std::uint32_t>(numbers_.size());
  out.rows = rows_;
  const TileLayout at = TileLayout::of(out.keywords, out.postings);
  out.bytes = Bytes(at.size);
  std::memset(out.bytes.data(), 0, at.rows);
  auto* keys = reinterpret_cast<Keyword*>(out.bytes.data() + at.keys);
  auto* begins = reinterpret_cast<std::uint32_t*>(out.bytes.data() + at.begins);
  auto* rows = reinterpret_cast<std::uint16_t*>(out.bytes.data() + at.rows);

  std::erase_if(slots_, [](const Slot& slot) { return slot.number == kNone; });
  std::sort(slots_.begin(), slots_.end(),
            [](const Slot& a, const Slot& b) { return a.key < b.key; });
  std::vector<std::uint32_t> places(out.keywords);  // by number: postings, then where the next goes
  for (const std::uint32_t number : numbers_) ++places[number];
  std::uint32_t place = 0;
  for (const Slot& slot : slots_) {
    *keys++ = slot.key;
    *begins++ = place;
    place += std::exchange(places[slot.number], place);
  }
  *begins = place;
  std::size_t i = 0;
  for (std::uint32_t row = 0; row < rows_; ++row) {
    for (; i < row_ends_[row]; ++i) rows[places[numbers_[i]]++] = static_cast<std::uint16_t>(row);
  }
  std::memset(rows + i, 0, at.size - at.rows - i * sizeof *rows);

  slots_.assign(std::size_t{1} << (64 - shift_), Slot{0, kNone});
  last_rows_.clear();
  numbers_.clear();
  row_ends_.clear();
  rows_ = 0;
  return out;
}

}  // namespace warplite::index

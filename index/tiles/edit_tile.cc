#include "index/tiles/edit_tile.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace warplite::index {
namespace {

using compute::EditLayout;
using compute::kEditGroup;
using compute::kLongestEditText;

constexpr std::uint32_t kLastPoint = 0x10ffff;

// Symbols that a width has, one of its numbers being no symbol.
constexpr std::uint32_t most_symbols(std::uint32_t width) {
  return width == 1 ? 0xff : width == 2 ? 0xffff : 0;
}

std::uint32_t width_for(std::size_t points) {
  return points <= most_symbols(1) ? 1 : points <= most_symbols(2) ? 2 : 4;
}

std::uint32_t groups_of(std::uint32_t texts) { return (texts + kEditGroup - 1) / kEditGroup; }

}  // namespace

std::vector<std::uint32_t> PointRanks::finish() {
  std::vector<std::uint32_t> points;
  for (std::uint32_t page = 0; page < kPages; ++page) {
    if (pages_[page] == nullptr) continue;
    for (std::uint32_t i = 0; i < kPage; ++i) {
      std::uint32_t& slot = (*pages_[page])[i];
      if (slot == 0) continue;
      slot = static_cast<std::uint32_t>(points.size());
      points.push_back(page * kPage + i);
    }
  }
  return points;
}

void PointRanks::clear() {
  for (std::unique_ptr<Page>& page : pages_) {
    if (page != nullptr) page->fill(0);
  }
}

void EditTileBuilder::add_row(std::span<const std::uint32_t> text) {
  WARP_CHECK(rows_ < compute::kTileRows);
  if (text.size() > kLongestEditText) {
    long_rows_.push_back(rows_++);
    return;
  }
  for (const std::uint32_t point : text) {
    WARP_CHECK(point <= kLastPoint);
    ranks_.add(point);
  }
  points_.insert(points_.end(), text.begin(), text.end());
  ends_.push_back(points_.size());
  text_rows_.push_back(rows_++);
}

void EditTileBuilder::skip_row() {
  WARP_CHECK(rows_ < compute::kTileRows);
  ++rows_;
}

// Numbers of texts in the order of their lengths.
std::vector<std::uint32_t> EditTileBuilder::order() const {
  std::vector<std::uint32_t> places(kLongestEditText + 2);  // of the next text of each length
  for (std::size_t i = 0; i < ends_.size(); ++i) ++places[length(i) + 1];
  for (std::size_t i = 1; i < places.size(); ++i) places[i] += places[i - 1];
  std::vector<std::uint32_t> order(ends_.size());
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    order[places[length(i)]++] = static_cast<std::uint32_t>(i);
  }
  return order;
}

template <class Symbol>
void EditTileBuilder::write_symbols(const std::vector<std::uint32_t>& order,
                                    const std::uint32_t* begins, Symbol* symbols) const {
  for (std::size_t i = 0; i < order.size(); ++i) {
    Symbol* place = symbols + std::size_t{begins[i / kEditGroup]} * kEditGroup + i % kEditGroup;
    for (std::size_t p = begin(order[i]); p < ends_[order[i]]; ++p, place += kEditGroup) {
      *place = static_cast<Symbol>(sizeof(Symbol) == 4 ? points_[p] : ranks_.rank(points_[p]));
    }
  }
}

// Rows, lengths, begins, symbols.
void EditTileBuilder::place(const std::vector<std::uint32_t>& order, EditTexts& out) const {
  const EditLayout at = EditLayout::of(out.alphabet, out.texts, out.positions, out.width);
  auto* rows = reinterpret_cast<std::uint16_t*>(out.bytes.data() + at.rows);
  auto* lengths = reinterpret_cast<std::uint16_t*>(out.bytes.data() + at.lengths);
  auto* begins = reinterpret_cast<std::uint32_t*>(out.bytes.data() + at.begins);
  std::byte* const symbols = out.bytes.data() + at.symbols;
  for (std::uint32_t i = 0; i < out.texts; ++i) {
    rows[i] = static_cast<std::uint16_t>(text_rows_[order[i]]);
    lengths[i] = static_cast<std::uint16_t>(length(order[i]));
    // The texts that follow are no shorter, so that the last of a group is its longest.
    begins[i / kEditGroup + 1] = begins[i / kEditGroup] + lengths[i];
  }
  std::memset(symbols, 0xff, std::size_t{out.positions} * kEditGroup * out.width);
  if (out.width == 1) write_symbols(order, begins, reinterpret_cast<std::uint8_t*>(symbols));
  if (out.width == 2) write_symbols(order, begins, reinterpret_cast<std::uint16_t*>(symbols));
  if (out.width == 4) write_symbols(order, begins, reinterpret_cast<std::uint32_t*>(symbols));
}

EditTexts EditTileBuilder::finish() {
  const std::vector<std::uint32_t> alphabet = ranks_.finish(), order = this->order();
  EditTexts out;
  out.rows = rows_;
  out.texts = static_cast<std::uint32_t>(order.size());
  out.width = width_for(alphabet.size());
  out.alphabet = out.width == 4 ? 0 : static_cast<std::uint32_t>(alphabet.size());
  for (std::uint32_t group = 0; group < groups_of(out.texts); ++group) {
    out.positions += length(order[std::min((group + 1) * kEditGroup, out.texts) - 1]);
  }
  out.bytes = Bytes(EditLayout::of(out.alphabet, out.texts, out.positions, out.width).size);
  std::memset(out.bytes.data(), 0, out.bytes.size());
  if (out.alphabet != 0) {
    std::memcpy(out.bytes.data(), alphabet.data(), alphabet.size() * sizeof alphabet[0]);
  }
  place(order, out);
  out.long_rows = std::exchange(long_rows_, {});
  points_.clear();
  ends_.clear();
  text_rows_.clear();
  ranks_.clear();
  rows_ = 0;
  return out;
}

}  // namespace warplite::index

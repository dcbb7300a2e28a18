#include "index/metric/text_metric_texts.h"

#include <algorithm>
#include <cstring>

#include "index/metric/metric_rows.h"

namespace warplite::index {
namespace {

using compute::kEditGroup;
using compute::MetricTexts;

}  // namespace

TileTexts::TileTexts(const compute::EditTile& tile, const std::byte* bytes)
    : texts_(tile.texts), width_(tile.width) {
  const auto at =
      compute::EditLayout::of(tile.alphabet, tile.texts, tile.positions, tile.width);
  rows_ = reinterpret_cast<const std::uint16_t*>(bytes + at.rows);
  lengths_ = reinterpret_cast<const std::uint16_t*>(bytes + at.lengths);
  begins_ = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  symbols_ = bytes + at.symbols;
}

std::uint32_t TileTexts::first_row() const {
  return static_cast<std::uint32_t>(std::min_element(rows_, rows_ + texts_) - rows_);
}

// Copies the symbols of a text to every kEditGroup-th place from `to` on.
template <class Symbol>
void TileTexts::copy(std::uint32_t text, Symbol* to) const {
  const Symbol* from = reinterpret_cast<const Symbol*>(symbols_) +
                       std::size_t{begins_[text / kEditGroup]} * kEditGroup + text % kEditGroup;
  for (std::uint32_t i = 0; i < lengths_[text]; ++i) to[i * kEditGroup] = from[i * kEditGroup];
}

std::vector<std::uint32_t> TileTexts::symbols(std::uint32_t text) const {
  std::vector<std::uint32_t> out(lengths_[text]);
  const auto read = [&](const auto* symbols) {
    symbols += std::size_t{begins_[text / kEditGroup]} * kEditGroup + text % kEditGroup;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = symbols[i * kEditGroup];
  };
  if (width_ == 1) read(reinterpret_cast<const std::uint8_t*>(symbols_));
  if (width_ == 2) read(reinterpret_cast<const std::uint16_t*>(symbols_));
  if (width_ == 4) read(reinterpret_cast<const std::uint32_t*>(symbols_));
  return out;
}

MetricTexts TileTexts::lay_out(std::span<const std::uint32_t> texts) const {
  MetricTexts out;
  out.groups = text_groups(texts.size());
  out.begins.resize(out.groups + 1);
  out.lengths.resize(std::size_t{out.groups} * kEditGroup, MetricTexts::kNoText);
  std::vector<std::uint32_t> longest(out.groups);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == kNobody) continue;
    out.lengths[i] = lengths_[texts[i]];
    longest[i / kEditGroup] = std::max<std::uint32_t>(longest[i / kEditGroup], out.lengths[i]);
  }
  for (std::uint32_t i = 0; i < out.groups; ++i) out.begins[i + 1] = out.begins[i] + longest[i];
  out.symbols = Bytes(std::size_t{out.begins.back()} * kEditGroup * width_);
  if (out.symbols.size() == 0) return out;
  std::memset(out.symbols.data(), 0xff, out.symbols.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == kNobody) continue;
    std::byte* const to =
        out.symbols.data() +
        (std::size_t{out.begins[i / kEditGroup]} * kEditGroup + i % kEditGroup) * width_;
    if (width_ == 1) copy(texts[i], reinterpret_cast<std::uint8_t*>(to));
    if (width_ == 2) copy(texts[i], reinterpret_cast<std::uint16_t*>(to));
    if (width_ == 4) copy(texts[i], reinterpret_cast<std::uint32_t*>(to));
  }
  return out;
}

void TextDistances::assign(const TileTexts& texts, std::span<const std::uint32_t> some) {
  // A text of the longest takes some 20 ms to be compared with as many characters.
  constexpr std::size_t kMostPositions = 16384;
  width_ = texts.width();
  places_ = std::size_t{text_groups(some.size())} * kEditGroup;
  parts_.clear();
  std::size_t first = 0, positions = 0;
  for (std::size_t group = 0; group < some.size(); group += kEditGroup) {
    std::uint32_t longest = 0;
    for (const std::uint32_t text : some.subspan(group).first(std::min<std::size_t>(
             kEditGroup, some.size() - group))) {
      longest = std::max<std::uint32_t>(longest, texts.length(text));
    }
    positions += longest;
    if (positions <= kMostPositions || group == first) continue;
    parts_.push_back(texts.lay_out(some.subspan(first, group - first)));
    first = group;
    positions = longest;
  }
  if (first < some.size()) parts_.push_back(texts.lay_out(some.subspan(first)));
}

void TextDistances::compute(compute::Device& host, std::span<const std::uint32_t> text,
                            compute::Cancellation* cancellation, std::uint16_t* out) const {
  for (const MetricTexts& part : parts_) {
    check_interrupt(cancellation);
    host.text_distances(text, part, width_, out);
    out += std::size_t{part.groups} * kEditGroup;
  }
}

}  // namespace warplite::index

#include "compute/edit_distance.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/error.h"

namespace warplite::compute {
namespace {

using CodePoints = std::vector<std::uint32_t>;

// The length of the valid UTF-8 sequence at the front of `text`, or 0.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;  // overlong
  if (lead == 0xed && byte(1) > 0x9f) return 0;  // surrogates
  if (lead == 0xf0 && byte(1) < 0x90) return 0;  // overlong
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;  // past U+10FFFF
  return length;
}

CodePoints decode(std::string_view text) {
  constexpr std::uint32_t kInvalidByte = 0x80000000u;  // outside Unicode: equals only itself
  CodePoints points;
  points.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    std::uint32_t point = static_cast<unsigned char>(text[0]);
    if (length == 0) point |= kInvalidByte;
    if (length > 1) point &= 0x7fu >> length;
    for (std::size_t i = 1; i < length; ++i) {
      point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
    }
    points.push_back(point);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return points;
}

// Where each character occurs in the pattern: one bit a position, in words of 64.
class Occurrences {
 public:
  Occurrences(const std::uint32_t* pattern, std::size_t size)
      : blocks_((size + 63) / 64), words_(blocks_, 0) {
    for (std::size_t i = 0; i < size; ++i) {
      std::uint32_t& slot = pattern[i] < ascii_.size() ? ascii_[pattern[i]] : others_[pattern[i]];
      if (slot == 0) {
        slot = static_cast<std::uint32_t>(words_.size() / blocks_);
        words_.resize(words_.size() + blocks_, 0);
      }
      words_[slot * blocks_ + i / 64] |= std::uint64_t{1} << (i % 64);
    }
  }
  std::size_t blocks() const { return blocks_; }
  const std::uint64_t* of(std::uint32_t character) const {
    if (character < ascii_.size()) return words_.data() + ascii_[character] * blocks_;
    const auto entry = others_.find(character);
    return words_.data() + (entry == others_.end() ? 0 : entry->second * blocks_);
  }

 private:
  std::size_t blocks_;
  std::vector<std::uint64_t> words_;  // blocks_ words a slot; slot 0: occurs nowhere
  std::array<std::uint32_t, 128> ascii_{};
  std::unordered_map<std::uint32_t, std::uint32_t> others_;
};

// 64 vertical differences of one column: +1 where `plus`, −1 where `minus`.
struct BitColumn {
  std::uint64_t plus = ~std::uint64_t{0};
  std::uint64_t minus = 0;

  // Moves one column to the right. `in` is the horizontal difference above the block;
  // returns the one at row `last` (0…63) of it.
  int advance(std::uint64_t equal, int in, unsigned last) {
    const std::uint64_t vertical = equal | minus;
    if (in < 0) equal |= 1;
    const std::uint64_t diagonal = (((equal & plus) + plus) ^ plus) | equal;
    std::uint64_t up = minus | ~(diagonal | plus);
    std::uint64_t down = plus & diagonal;
    const int out = static_cast<int>((up >> last) & 1) - static_cast<int>((down >> last) & 1);
    up = up << 1 | (in > 0 ? 1 : 0);
    down = down << 1 | (in < 0 ? 1 : 0);
    plus = down | ~(vertical | up);
    minus = up & vertical;
    return out;
  }
};

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b, Cancellation* cancellation) {
  CodePoints x = decode(a);
  CodePoints y = decode(b);
  if (x.size() > y.size()) x.swap(y);
  std::size_t begin = 0;
  while (begin < x.size() && x[begin] == y[begin]) ++begin;
  std::size_t tail = 0;
  while (begin + tail < x.size() && x[x.size() - 1 - tail] == y[y.size() - 1 - tail]) ++tail;
  const std::size_t size = x.size() - begin - tail;
  const std::size_t text_end = y.size() - tail;
  if (size == 0) return text_end - begin;

  const Occurrences occurrences(x.data() + begin, size);
  std::vector<BitColumn> blocks(occurrences.blocks());
  const unsigned last_row = static_cast<unsigned>((size - 1) % 64);
  std::size_t distance = size;
  std::size_t work = 0;
  for (std::size_t i = begin; i < text_end; ++i) {
    const std::uint64_t* equal = occurrences.of(y[i]);
    int carry = 1;  // the first row counts the columns
    for (std::size_t j = 0; j + 1 < blocks.size(); ++j) {
      carry = blocks[j].advance(equal[j], carry, 63);
    }
    carry = blocks.back().advance(equal[blocks.size() - 1], carry, last_row);
    distance = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(distance) + carry);
    work += blocks.size();
    if (work >= 65536) {
      work = 0;
      if (cancellation != nullptr && cancellation->requested()) {
        throw Error(ErrorKind::kInterrupted, "interrupted");
      }
    }
  }
  return distance;
}

}  // namespace warplite::compute

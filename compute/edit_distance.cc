#include "compute/edit_distance.h"

#include <algorithm>

#include "core/error.h"

namespace warplite::compute {
namespace {

constexpr std::size_t kWorkBetweenPolls = 65536;  // cells of 64

void poll(Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

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

EditPattern::EditPattern(std::span<const std::uint32_t> pattern, Cancellation* cancellation)
    : size_(pattern.size()), blocks_((size_ + 63) / 64) {
  // For each character, the number of blocks it is in and the last of them.
  std::vector<std::uint32_t> counts{0}, last{0};
  for (std::size_t i = 0; i < size_; ++i) {
    if (i % kWorkBetweenPolls == kWorkBetweenPolls - 1) poll(cancellation);
    const auto block = static_cast<std::uint32_t>(i / 64 + 1);
    std::uint32_t& its = slot(pattern[i]);
    if (its == 0) {
      its = static_cast<std::uint32_t>(counts.size());
      counts.push_back(0);
      last.push_back(0);
    }
    counts[its] += last[its] == block ? 0 : 1;
    last[its] = block;
  }
  std::uint32_t begin = 0;
  for (const std::uint32_t count : counts) {
    begins_.back() = begin;
    begin += count + 1;
    begins_.push_back(begin);
  }
  occurrences_.assign(begin, {kEnd, 0});
  std::vector<std::uint32_t>& next = counts;  // behind the last of each
  std::copy(begins_.begin(), begins_.end() - 1, next.begin());
  for (std::size_t i = 0; i < size_; ++i) {
    if (i % kWorkBetweenPolls == kWorkBetweenPolls - 1) poll(cancellation);
    std::uint32_t& at = next[slot(pattern[i])];
    const std::size_t block = i / 64;
    // The one before belongs to the character if it is of this block.
    if (at == begins_[slot(pattern[i])] || occurrences_[at - 1].block != block) {
      occurrences_[at++].block = block;
    }
    occurrences_[at - 1].bits |= std::uint64_t{1} << (i % 64);
  }
}

const EditPattern::Occurrences* EditPattern::occurrences(std::uint32_t character) const {
  if (character < ascii_.size()) return occurrences_.data() + begins_[ascii_[character]];
  const auto entry = others_.find(character);
  return occurrences_.data() + (entry == others_.end() ? 0 : begins_[entry->second]);
}

std::size_t EditPattern::distance(std::span<const std::uint32_t> text,
                                  Cancellation* cancellation) const {
  if (size_ == 0) return text.size();
  return blocks_ == 1 ? distance_of_one(text, cancellation) : distance_of_blocks(text, cancellation);
}

// Most patterns fit into a word.
std::size_t EditPattern::distance_of_one(std::span<const std::uint32_t> text,
                                         Cancellation* cancellation) const {
  BitColumn column;
  const auto last_row = static_cast<unsigned>(size_ - 1);
  auto distance = static_cast<std::ptrdiff_t>(size_);
  while (!text.empty()) {
    const auto some = text.first(std::min(text.size(), kWorkBetweenPolls));
    for (const std::uint32_t character : some) {
      distance += column.advance(occurrences(character)->bits, 1, last_row);
    }
    text = text.subspan(some.size());
    if (!text.empty()) poll(cancellation);
  }
  return static_cast<std::size_t>(distance);
}

std::size_t EditPattern::distance_of_blocks(std::span<const std::uint32_t> text,
                                            Cancellation* cancellation) const {
  std::vector<BitColumn> columns(blocks_);
  const auto last_row = static_cast<unsigned>((size_ - 1) % 64);
  auto distance = static_cast<std::ptrdiff_t>(size_);
  std::size_t work = 0;
  for (const std::uint32_t character : text) {
    const Occurrences* next = occurrences(character);
    const auto equal = [&next](std::size_t block) {
      const bool here = next->block == block;
      const std::uint64_t bits = here ? next->bits : 0;
      next += here ? 1 : 0;
      return bits;
    };
    int carry = 1;  // the first row counts the columns
    for (std::size_t j = 0; j + 1 < blocks_; ++j) carry = columns[j].advance(equal(j), carry, 63);
    distance += columns.back().advance(equal(blocks_ - 1), carry, last_row);
    work += blocks_;
    if (work < kWorkBetweenPolls) continue;
    work = 0;
    poll(cancellation);
  }
  return static_cast<std::size_t>(distance);
}

std::size_t edit_distance(std::string_view a, std::string_view b, Cancellation* cancellation) {
  CodePoints x, y;
  decode_utf8(a, x);
  decode_utf8(b, y);
  if (x.size() > y.size()) x.swap(y);
  std::size_t begin = 0;
  while (begin < x.size() && x[begin] == y[begin]) ++begin;
  std::size_t tail = 0;
  while (begin + tail < x.size() && x[x.size() - 1 - tail] == y[y.size() - 1 - tail]) ++tail;
  const auto middle = [&](const CodePoints& points) {
    return std::span(points).subspan(begin, points.size() - begin - tail);
  };
  return EditPattern(middle(x), cancellation).distance(middle(y), cancellation);
}

}  // namespace warplite::compute

#include "index/unicode.h"

#include <algorithm>

namespace warplite::index {
namespace {

// The range that has the code point between its ends, or null.
template <class Range>
const Range* find(std::span<const Range> ranges, std::uint32_t code_point) {
  const auto range = std::lower_bound(
      ranges.begin(), ranges.end(), code_point,
      [](const Range& candidate, std::uint32_t wanted) { return candidate.last < wanted; });
  return range != ranges.end() && range->first <= code_point ? &*range : nullptr;
}

bool is_in(char first, char last, std::uint32_t code_point) {
  return code_point >= static_cast<unsigned char>(first) &&
         code_point <= static_cast<unsigned char>(last);
}

}  // namespace

bool belongs_to_word(std::uint32_t code_point) {
  if (code_point < 0x80) {
    return is_in('a', 'z', code_point) || is_in('A', 'Z', code_point) ||
           is_in('0', '9', code_point);
  }
  return find(word_ranges(), code_point) != nullptr;
}

std::uint32_t fold_case(std::uint32_t code_point) {
  if (code_point < 0x80) return is_in('A', 'Z', code_point) ? code_point + ('a' - 'A') : code_point;
  const FoldRange* range = find(fold_ranges(), code_point);
  if (range == nullptr || (code_point - range->first) % range->step != 0) return code_point;
  return code_point + static_cast<std::uint32_t>(range->difference);
}

}  // namespace warplite::index

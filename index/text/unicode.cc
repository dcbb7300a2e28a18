#include "index/text/unicode.h"

#include "index/text/code_point_ranges.h"

namespace warplite::index {
namespace {

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
  return find_range(word_ranges(), code_point) != nullptr;
}

std::uint32_t fold_other(std::uint32_t code_point) {
  const FoldRange* range = find_range(fold_ranges(), code_point);
  if (range == nullptr || (code_point - range->first) % range->step != 0) return code_point;
  return code_point + static_cast<std::uint32_t>(range->difference);
}

}  // namespace warplite::index

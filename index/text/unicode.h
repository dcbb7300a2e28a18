// The encoders of texts know this of characters, after Unicode 14: which belong to words, and how
// case is folded. The tables are part of what stored indexes mean (see make_unicode_tables.py).
// Threads: any.
#pragma once

#include <cstdint>
#include <span>

namespace warplite::index {

// Letters, marks and decimal digits.
bool belongs_to_word(std::uint32_t code_point);

// Simple case folding: of every text it makes one with as many characters.
std::uint32_t fold_other(std::uint32_t code_point);  // REQUIRES: it is not ASCII
inline std::uint32_t fold_case(std::uint32_t code_point) {
  if (code_point >= 0x80) return fold_other(code_point);
  return code_point >= 'A' && code_point <= 'Z' ? code_point + ('a' - 'A') : code_point;
}

// The tables, ascending.
struct CodePointRange {
  std::uint32_t first, last;
};
struct FoldRange {
  std::uint32_t first, last, step;  // every step-th of these
  std::int32_t difference;
};
std::span<const CodePointRange> word_ranges();
std::span<const FoldRange> fold_ranges();

}  // namespace warplite::index

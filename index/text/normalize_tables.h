// These tables hold what normalisation knows of characters, after Unicode 14, but for the syllables
// of Hangul, which follow from a formula. They are part of what stored indexes mean
// (make_unicode_tables.py).
// Threads: any.
#pragma once

#include <cstdint>
#include <span>

namespace warplite::index {

// Characters of a canonical combining class other than 0.
struct CombiningRange {
  std::uint32_t first, last;
  std::uint8_t combining_class;
};

// Characters that follow each other, and decompose into `length` characters each, one step of the
// way: those of `first` are decomposition_characters()[offset] and on, then come those of the next.
struct DecompositionRun {
  std::uint32_t first, last;
  std::uint16_t offset;
  std::uint8_t length;
  bool canonical;  // else: compatibility
};

std::span<const CombiningRange> combining_ranges();
std::span<const DecompositionRun> decomposition_runs();
std::span<const std::uint32_t> decomposition_characters();
// Returns the characters that decompose canonically into two characters but are not made of them
// again.
std::span<const std::uint32_t> composition_exclusions();

}  // namespace warplite::index

// Levenshtein distance over Unicode code points, bit-parallel: 64 cells of a
// column of the dynamic programme at a time (Myers; in blocks as Hyyrö has it).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compute/ops.h"
#include "core/utf8.h"

namespace warplite::compute {

// A text that is compared with many others. Takes memory in proportion to its length.
// Threads: distance() may run concurrently.
class EditPattern {
 public:
  // Throws Error{kInterrupted} when `cancellation` (may be null) asks for it.
  explicit EditPattern(std::span<const std::uint32_t> pattern,
                       Cancellation* cancellation = nullptr);

  std::size_t size() const { return size_; }
  // Throws Error{kInterrupted} when `cancellation` (may be null) asks for it.
  std::size_t distance(std::span<const std::uint32_t> text, Cancellation* cancellation) const;

 private:
  // Says where a character occurs among 64: a bit to a position.
  struct Occurrences {
    std::uint64_t block;
    std::uint64_t bits;
  };
  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};  // the block behind the last

  // A character's, by block, and one at kEnd.
  const Occurrences* occurrences(std::uint32_t character) const;
  std::uint32_t& slot(std::uint32_t character) {
    return character < ascii_.size() ? ascii_[character] : others_[character];
  }
  std::size_t distance_of_one(std::span<const std::uint32_t> text,
                              Cancellation* cancellation) const;
  std::size_t distance_of_blocks(std::span<const std::uint32_t> text,
                                 Cancellation* cancellation) const;

  std::size_t size_, blocks_;
  std::vector<Occurrences> occurrences_;  // of all characters; the first occurs nowhere
  std::vector<std::uint32_t> begins_{0};  // in occurrences_, by slot
  std::array<std::uint32_t, 128> ascii_{};
  std::unordered_map<std::uint32_t, std::uint32_t> others_;
};

// `a` and `b` are UTF-8; a byte that belongs to no valid sequence counts as a character of its own.
// Throws Error{kInterrupted} when `cancellation` (may be null) asks for it.
std::size_t edit_distance(std::string_view a, std::string_view b, Cancellation* cancellation);

}  // namespace warplite::compute

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

// A text that is compared with many others.
// Threads: distance() may run concurrently.
class EditPattern {
 public:
  explicit EditPattern(std::span<const std::uint32_t> pattern);

  std::size_t size() const { return size_; }
  // Throws Error{kInterrupted} when `cancellation` (may be null) asks for it.
  std::size_t distance(std::span<const std::uint32_t> text, Cancellation* cancellation) const;

 private:
  // Where a character occurs: one bit a position, in words of 64.
  const std::uint64_t* occurrences(std::uint32_t character) const;
  std::size_t distance_of_one(std::span<const std::uint32_t> text,
                              Cancellation* cancellation) const;
  std::size_t distance_of_blocks(std::span<const std::uint32_t> text,
                                 Cancellation* cancellation) const;

  std::size_t size_, blocks_;
  std::vector<std::uint64_t> words_;  // blocks_ words a slot; slot 0: occurs nowhere
  std::array<std::uint32_t, 128> ascii_{};
  std::unordered_map<std::uint32_t, std::uint32_t> others_;
};

// `a` and `b` are UTF-8; a byte that belongs to no valid sequence counts as a character of its own.
// Throws Error{kInterrupted} when `cancellation` (may be null) asks for it.
std::size_t edit_distance(std::string_view a, std::string_view b, Cancellation* cancellation);

}  // namespace warplite::compute

// Tells where the characters of a batch occur in a stripe of a group of texts; masks are found as
// they are wanted, and kept for the queries that follow.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/edit/group.h"
#include "cpu/edit/kernels.h"

namespace warplite::cpu {

class EditMasks {
 public:
  // From now on the characters, by number, have these symbols; kNoSymbol stands for one without.
  // `alone`: find() is asked for all of them at once.
  void translate(std::vector<std::uint32_t> symbols, bool alone);
  // Takes the texts of this group from now on, with symbols of this width.
  void begin(const EditGroup& group, std::uint32_t width);
  // Makes masks() of these characters those of the stripe that begins with this row.
  // REQUIRES: at most kMostMasks of them, each once.
  void find(const EditKernels& kernels, std::size_t row, std::span<const std::uint32_t> numbers);

  const std::uint16_t* masks() const { return masks_.data(); }
  // Returns where a character's masks begin in masks(), by number.
  const std::uint32_t* offsets() const { return offsets_.data(); }

  static constexpr std::size_t kMostMasks = 1024;

 private:
  void forget();

  EditGroup group_;
  std::uint32_t width_ = 1;
  std::size_t row_ = 0, found_ = 0;    // the stripe, and how many masks it has
  std::vector<std::uint32_t> symbols_;  // by number
  // Offset 0 is that of zeros, which characters have that are not there.
  std::vector<std::uint32_t> offsets_;
  std::vector<std::uint64_t> made_;    // by number: for which stripe
  std::uint64_t stripe_ = 0;           // counts them
  std::vector<std::uint32_t> wanted_;  // of find()
  bool alone_ = false;
  std::size_t same_size_ = 0;  // alone: of masks, in which offsets and what is wanted are as before
  std::vector<std::uint16_t> masks_;
};

}  // namespace warplite::cpu

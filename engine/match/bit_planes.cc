#include "engine/match/bit_planes.h"

#include <algorithm>
#include <bit>

#include "engine/filter/interval_mask.h"

namespace warplite::engine {
namespace {

using Word = std::uint64_t;

// Loops of a fixed length over words that do not overlap: compilers make SIMD of them.
#define WARPLITE_EACH_WORD(i) for (std::size_t i = 0; i < kSliceWords; ++i)

// Three bits to one of the same weight and one of twice that.
void full_add(const Word* __restrict a, const Word* __restrict b, const Word* __restrict c,
              Word* __restrict sum, Word* __restrict carry) {
  WARPLITE_EACH_WORD(i) {
    const Word either = a[i] ^ b[i];
    const Word both = a[i] & b[i];
    carry[i] = both | (either & c[i]);
    sum[i] = either ^ c[i];
  }
}

void half_add(const Word* __restrict a, const Word* __restrict b, Word* __restrict sum,
              Word* __restrict carry) {
  WARPLITE_EACH_WORD(i) {
    carry[i] = a[i] & b[i];
    sum[i] = a[i] ^ b[i];
  }
}

// Keeps the counts that so far equal a number's upper digits and whose next digit is 1, as the
// number's is.
void keep_ones(Word* __restrict equal, const Word* __restrict digit) {
  WARPLITE_EACH_WORD(i) equal[i] &= digit[i];
}

// The same for 0: a digit of 1 makes a count larger.
void keep_zeros(Word* __restrict equal, Word* __restrict larger, const Word* __restrict digit) {
  WARPLITE_EACH_WORD(i) {
    larger[i] |= equal[i] & digit[i];
    equal[i] &= ~digit[i];
  }
}

void unite(Word* __restrict to, const Word* __restrict from) {
  WARPLITE_EACH_WORD(i) to[i] |= from[i];
}

void intersect(const Word* __restrict a, const Word* __restrict b, Word* __restrict out) {
  WARPLITE_EACH_WORD(i) out[i] = a[i] & b[i];
}

#undef WARPLITE_EACH_WORD

}  // namespace

// Carry-save addition of one slice: bitmaps of the same weight wait until there are three of them,
// which become one of that weight, and one of the next.
class BitPlanes::Adder {
 public:
  Adder(Word* buffers, std::size_t width) : buffers_(buffers), width_(width) {}

  // Makes the sums ready for another slice.
  void clear() { std::fill_n(levels_, width_, Level{}); }

  static std::size_t buffer_words(std::size_t width) { return width * kBuffers * kSliceWords; }

  void add(const Word* rows, std::uint64_t weight) {
    for (; weight != 0; weight &= weight - 1) {
      arrive(rows, static_cast<std::size_t>(std::countr_zero(weight)));
    }
  }

  // Puts the digits of weight 2^level into `plane`. REQUIRES: those below were finished before.
  void finish(std::size_t level, Word* plane) {
    Level& at = levels_[level];
    if (at.count == 0) {
      std::fill_n(plane, kSliceWords, 0);
    } else if (at.count == 1) {
      std::copy_n(at.waiting[0], kSliceWords, plane);
    } else if (level + 1 == width_) {
      // Sums have no further digit, so no row is in both.
      std::copy_n(at.waiting[0], kSliceWords, plane);
      unite(plane, at.waiting[1]);
    } else {
      Word* const carry = carry_buffer(level + 1);
      half_add(at.waiting[0], at.waiting[1], plane, carry);
      arrive(carry, level + 1);
    }
  }

 private:
  struct Level {
    const Word* waiting[2] = {};
    std::size_t count = 0;  // that wait
    bool odd = false;       // which buffer holds the last sum
  };
  static constexpr std::size_t kSums = 2;   // the last one is read while the next one is written
  static constexpr std::size_t kCarries = 3;
  static constexpr std::size_t kBuffers = kSums + kCarries;
  static constexpr std::size_t kMostLevels = 65;

  Word* buffer(std::size_t level, std::size_t i) {
    return buffers_ + (level * kBuffers + i) * kSliceWords;
  }
  // The one that nothing waits in.
  Word* carry_buffer(std::size_t level) { return buffer(level, kSums + levels_[level].count); }

  void arrive(const Word* rows, std::size_t level) {
    for (;;) {
      Level& at = levels_[level];
      if (at.count < 2) {
        at.waiting[at.count++] = rows;
        return;
      }
      at.odd = !at.odd;
      Word* const sum = buffer(level, at.odd ? 1 : 0);
      // The topmost digits cannot have a carry; its place is written to all the same.
      Word* const carry = level + 1 < width_ ? carry_buffer(level + 1) : buffer(width_, 0);
      full_add(at.waiting[0], at.waiting[1], rows, sum, carry);
      at.waiting[0] = sum;
      at.count = 1;
      if (++level == width_) return;
      rows = carry;
    }
  }

  Word* buffers_;
  std::size_t width_;
  Level levels_[kMostLevels];
};

void BitPlanes::sum(std::span<const Addend> addends, std::size_t words) {
  std::uint64_t bound = 0;
  for (const Addend& addend : addends) bound += addend.weight;
  words_ = words;
  width_ = static_cast<std::size_t>(std::bit_width(bound));
  planes_.resize(std::max(planes_.size(), width_ * words));
  const std::size_t buffers = Adder::buffer_words(width_ + 1);
  if (scratch_.size() < buffers) scratch_.resize(buffers);
  Adder adder(scratch_.data(), width_);
  for (std::size_t first = 0; first < words; first += kSliceWords, adder.clear()) {
    for (const Addend& addend : addends) adder.add(addend.rows + first, addend.weight);
    for (std::size_t p = 0; p < width_; ++p) adder.finish(p, plane(p) + first);
  }
}

std::uint64_t BitPlanes::count(std::size_t row) const {
  std::uint64_t count = 0;
  const Word* word = planes_.data() + row / 64;
  for (std::size_t p = 0; p < width_; ++p, word += words_) count |= (*word >> (row % 64) & 1) << p;
  return count;
}

std::size_t BitPlanes::at_least(std::uint64_t least, Word* rows) const {
  if (static_cast<std::size_t>(std::bit_width(least)) > width_) {
    std::fill_n(rows, words_, 0);
    return 0;
  }
  Word equal[kSliceWords];
  for (std::size_t first = 0; first < words_; first += kSliceWords) {
    Word* const larger = rows + first;
    std::fill_n(larger, kSliceWords, 0);
    std::fill_n(equal, kSliceWords, ~Word{0});
    for (std::size_t p = width_; p-- > 0;) {
      if ((least >> p & 1) != 0) {
        keep_ones(equal, plane(p) + first);
      } else {
        keep_zeros(equal, larger, plane(p) + first);
      }
    }
    unite(larger, equal);
  }
  return count_bits(rows, words_);
}

// Digit by digit from the top: the k-th count has a 1 where k rows or more do.
BitPlanes::Largest BitPlanes::largest(std::size_t k, Word* rows, Word* ties) {
  Largest result{0, 0};
  scratch_.resize(std::max(scratch_.size(), words_));
  Word* const ones = scratch_.data();
  std::copy_n(rows, words_, ties);
  std::fill_n(rows, words_, 0);
  for (std::size_t p = width_; p-- > 0;) {
    const Word* const digit = plane(p);
    for (std::size_t i = 0; i < words_; i += kSliceWords) intersect(ties + i, digit + i, ones + i);
    const std::size_t count = count_bits(ones, words_);
    if (result.more + count >= k) {
      std::copy_n(ones, words_, ties);
      result.count |= std::uint64_t{1} << p;
    } else {
      result.more += count;
      for (std::size_t i = 0; i < words_; i += kSliceWords) {
        keep_zeros(ties + i, rows + i, digit + i);
      }
    }
  }
  return result;
}

}  // namespace warplite::engine

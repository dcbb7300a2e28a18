// A fixed-size set of bits, 64 to a word, least significant first. Bits past
// size() are always zero, so words can be counted and combined whole.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace warplite {

class Bitmap {
 public:
  Bitmap() = default;
  explicit Bitmap(std::size_t size, bool value = false)
      : size_(size), words_((size + 63) / 64, value ? ~std::uint64_t{0} : 0) {
    trim();
  }

  std::size_t size() const { return size_; }
  bool test(std::size_t i) const { return (words_[i / 64] >> (i % 64)) & 1; }
  void set(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  // All of first … end − 1.
  void set(std::size_t first, std::size_t end) {
    for (; first < end && first % 64 != 0; ++first) set(first);
    for (; first + 64 <= end; first += 64) words_[first / 64] = ~std::uint64_t{0};
    for (; first < end; ++first) set(first);
  }
  void reset(std::size_t i) { words_[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  // Grows with `value`, or shrinks.
  void resize(std::size_t size, bool value = false) {
    const std::size_t old = size_;
    words_.resize((size + 63) / 64, 0);
    size_ = size;
    if (value) {
      for (std::size_t i = old; i < size; ++i) set(i);
    }
    trim();
  }

  std::size_t count() const {
    std::size_t n = 0;
    for (std::uint64_t word : words_) n += static_cast<std::size_t>(std::popcount(word));
    return n;
  }
  bool all() const { return count() == size_; }

  Bitmap& operator&=(const Bitmap& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }
  Bitmap& operator|=(const Bitmap& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }

  const std::uint64_t* words() const { return words_.data(); }
  std::uint64_t* words() { return words_.data(); }
  std::size_t word_count() const { return words_.size(); }

 private:
  void trim() {
    if (size_ % 64 != 0) words_.back() &= (std::uint64_t{1} << (size_ % 64)) - 1;
  }

  std::size_t size_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace warplite

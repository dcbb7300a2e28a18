// Sets of values are compared by these: a number or a text made a word, and a sieve of such words.
// Threads: a Sieve is immutable once it is filled.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace warplite::engine {

// Says of most values that a set lacks them, by one look into a table small enough to stay in
// the nearest caches and without a branch that could not be predicted.
class Sieve {
 public:
  // Makes an empty sieve for this many values.
  explicit Sieve(std::size_t values = 0)
      : shift_(64 - std::countr_zero(std::bit_ceil(
                        std::clamp(values * kSlots, std::size_t{256}, kMostSlots)))),
        slots_(std::size_t{1} << (64 - shift_)) {}

  void add(std::uint64_t key) { slots_[slot(key)] = 1; }
  // 0: the set lacks it; 1: it may have it.
  std::uint64_t may_have(std::uint64_t key) const { return slots_[slot(key)]; }

 private:
  static constexpr std::size_t kSlots = 16;  // a value: one in 16 passes that should not
  static constexpr std::size_t kMostSlots = std::size_t{1} << 18;

  std::size_t slot(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15u >> shift_);
  }

  int shift_;
  std::vector<std::uint8_t> slots_;
};

inline std::uint64_t sieve_key(std::int64_t value) { return static_cast<std::uint64_t>(value); }
// Both zeros have the same key.
inline std::uint64_t sieve_key(double value) { return std::bit_cast<std::uint64_t>(value + 0.0); }

// A text's two ends, which overlap in a short one: texts of up to 16 bytes are equal when their
// sizes and ends are.
struct TextEnds {
  std::uint64_t head = 0;
  std::uint64_t tail = 0;

  TextEnds(const char* text, std::size_t size) {
    if (size >= 8) {
      head = load<std::uint64_t>(text);
      tail = load<std::uint64_t>(text + size - 8);
    } else if (size >= 4) {
      head = load<std::uint32_t>(text);
      tail = load<std::uint32_t>(text + size - 4);
    } else if (size != 0) {
      head = static_cast<unsigned char>(text[0]) | load_byte(text + size / 2) << 8;
      tail = load_byte(text + size - 1);
    }
  }
  friend bool operator==(const TextEnds&, const TextEnds&) = default;

 private:
  template <typename T>
  static std::uint64_t load(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  static std::uint64_t load_byte(const char* from) { return load<std::uint8_t>(from); }
};

inline std::uint64_t sieve_key(std::string_view text) {
  const TextEnds ends(text.data(), text.size());
  return ends.head + std::rotl(ends.tail * 0xd6e8feb86659fd93u, 32) + text.size();
}

// Tests texts of the same size for equality with one.
class TextEquality {
 public:
  // REQUIRES: the text outlives this.
  explicit TextEquality(std::string_view text) : text_(text), ends_(text.data(), text.size()) {}

  bool operator()(const char* other) const {
    if (TextEnds(other, text_.size()) != ends_) return false;
    return text_.size() <= 16 ||
           std::memcmp(other + 8, text_.data() + 8, text_.size() - 16) == 0;
  }

 private:
  std::string_view text_;
  TextEnds ends_;
};

}  // namespace warplite::engine

// LIKE and GLOB as SQLite's built-in functions define them, on UTF-8 of any quality.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/process/interruption.h"
#include "engine/filter/filter.h"

namespace warplite::engine {
namespace {

constexpr std::uint32_t kReplacement = 0xfffd;

// A position in a text that yields code points; 0 at the end. Text ends at a NUL.
// A sequence that encodes what UTF-8 should not is the replacement character.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

  std::uint32_t next() {
    if (at_ == end_) return 0;
    std::uint32_t c = static_cast<unsigned char>(*at_++);
    if (c < 0xc0) return c;
    c = first_bits(c);
    while (at_ != end_ && (static_cast<unsigned char>(*at_) & 0xc0) == 0x80) {
      c = (c << 6) | (static_cast<unsigned char>(*at_++) & 0x3f);
    }
    const bool refused = c < 0x80 || (c & 0xfffff800) == 0xd800 || (c & 0xfffffffe) == 0xfffe;
    return refused ? kReplacement : c;
  }

  // Goes on to the next byte that is one of the two. False: there is none. REQUIRES: they are ASCII, whose bytes
  // are code points wherever they stand.
  bool skip_to(std::uint32_t a, std::uint32_t b) {
    const auto first = static_cast<char>(a), second = static_cast<char>(b);
    const auto size = static_cast<std::size_t>(end_ - at_);
    if (first == second) {
      const void* const found = size == 0 ? nullptr : std::memchr(at_, first, size);
      at_ = found == nullptr ? end_ : static_cast<const char*>(found);
    } else {
      while (at_ != end_ && *at_ != first && *at_ != second) ++at_;
    }
    return at_ != end_;
  }
  // The same for the next byte that is no ASCII.
  bool skip_ascii() {
    while (at_ != end_ && static_cast<unsigned char>(*at_) < 0x80) ++at_;
    return at_ != end_;
  }

 private:
  // The payload of a lead byte: as many bits as its length leaves.
  static std::uint32_t first_bits(std::uint32_t lead) {
    if (lead < 0xe0) return lead & 0x1f;
    if (lead < 0xf0) return lead & 0x0f;
    if (lead < 0xf8) return lead & 0x07;
    if (lead < 0xfc) return lead & 0x03;
    return lead < 0xfe ? lead & 0x01 : 0;
  }

  const char* at_;
  const char* end_;
};

std::uint32_t fold(std::uint32_t c) {
  return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}
std::uint32_t other_case(std::uint32_t c) {
  return c >= 'a' && c <= 'z' ? c - ('a' - 'A') : fold(c);
}

struct Like {
  static constexpr std::uint32_t kAny = '%';
  static constexpr std::uint32_t kOne = '_';
  static bool same(std::uint32_t a, std::uint32_t b) { return fold(a) == fold(b); }
  static bool opens_set(std::uint32_t) { return false; }
  // What else than `c` is the same.
  static std::uint32_t other(std::uint32_t c) { return other_case(c); }
};

struct Glob {
  static constexpr std::uint32_t kAny = '*';
  static constexpr std::uint32_t kOne = '?';
  static bool same(std::uint32_t a, std::uint32_t b) { return a == b; }
  static bool opens_set(std::uint32_t c) { return c == '['; }
  static std::uint32_t other(std::uint32_t c) { return c; }
};

// Says whether `c` is in the set whose '[' was just read; leaves `pattern` behind the ']'.
// A set that is not closed matches nothing.
bool in_set(Cursor& pattern, std::uint32_t c, SparsePoll& poll) {
  bool seen = false;
  bool inverted = false;
  std::uint32_t previous = 0;
  std::uint32_t p = pattern.next();
  if (p == '^') {
    inverted = true;
    p = pattern.next();
  }
  if (p == ']') {
    seen = c == ']';
    p = pattern.next();
  }
  for (; p != 0 && p != ']'; p = pattern.next()) {
    poll();
    if (p == '-' && previous != 0) {
      Cursor ahead = pattern;
      const std::uint32_t high = ahead.next();
      if (high != 0 && high != ']') {
        seen |= c >= previous && c <= high;
        previous = 0;
        pattern = ahead;
        continue;
      }
    }
    seen |= c == p;
    previous = p;
  }
  return p == ']' && seen != inverted;
}

// What follows an "any", and where in the text it was tried last.
template <typename Rules>
class Retry {
 public:
  // Behind an "any". "Any" and "one", in any order, are as many of "one" and then "any". False: nothing matches.
  bool begin(Cursor& pattern, Cursor& subject) {
    for (Cursor ahead = pattern;; pattern = ahead) {
      first_ = ahead.next();
      if (first_ == Rules::kAny) continue;
      if (first_ != Rules::kOne) break;
      if (subject.next() == 0) return false;
    }
    possible_ = true;
    pattern_ = pattern;
    return advance(subject);
  }
  bool ends() const { return first_ == 0; }
  // Behind a mismatch: at the next place where what follows may begin. False: there is none.
  bool again(Cursor& pattern, Cursor& subject) {
    if (!possible_) return false;
    subject_.next();
    pattern = pattern_;
    subject = subject_;
    return advance(subject);
  }

 private:
  bool advance(Cursor& subject) {
    bool there = true;
    if (first_ >= 0x80) {
      there = subject.skip_ascii();
    } else if (first_ != 0 && !Rules::opens_set(first_)) {
      there = subject.skip_to(first_, Rules::other(first_));
    }
    subject_ = subject;
    return there;
  }

  bool possible_ = false;
  std::uint32_t first_ = 0;  // 0: the pattern ends there
  Cursor pattern_{{}}, subject_{{}};
};

// Iterative: after a mismatch only the last "any" needs another try, since an earlier one
// could not do better.
template <typename Rules>
bool match(std::string_view pattern_text, std::string_view text) {
  Cursor pattern(pattern_text.substr(0, pattern_text.find('\0')));
  Cursor subject(text.substr(0, text.find('\0')));
  Retry<Rules> retry;
  SparsePoll poll;
  for (;;) {
    poll();
    const std::uint32_t p = pattern.next();
    if (p == Rules::kAny) {
      if (!retry.begin(pattern, subject)) return false;
      if (retry.ends()) return true;
      continue;
    }
    const std::uint32_t c = subject.next();
    if (p == 0 && c == 0) return true;
    bool matched = false;
    if (p != 0 && c != 0) {
      matched = p == Rules::kOne ||
                (Rules::opens_set(p) ? in_set(pattern, c, poll) : Rules::same(p, c));
    }
    if (matched) continue;
    if (c == 0 || !retry.again(pattern, subject)) return false;
  }
}

}  // namespace

bool like_match(std::string_view pattern, std::string_view text) {
  return match<Like>(pattern, text);
}

bool glob_match(std::string_view pattern, std::string_view text) {
  return match<Glob>(pattern, text);
}

}  // namespace warplite::engine

// Reads JSON that came from outside, token by token: the one place that does. It takes what JSON
// (RFC 8259) takes and what SQLite's JSON functions print besides: infinity as Inf (before 3.42) or
// as a number beyond the range of double, and bytes in strings that are no UTF-8. A number may begin
// with its point; those of vectors may have all decimal forms that C's strtod takes (1., +1, 01), as
// users of sqlite-vec write them.
// Bounds: kMostJsonLevels of nesting; no recursion, and memory for one string.
// Threads: one at a time. Ownership: borrows the text.
// Errors: JsonError, with the byte where it is, counted from 1.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "core/process/interruption.h"
#include "core/value.h"

namespace warplite::sql {

inline constexpr std::size_t kMostJsonLevels = 64;

class JsonError : public std::exception {
 public:
  explicit JsonError(std::string problem) : problem_(std::move(problem)) {}
  // "malformed JSON at byte 12".
  const char* what() const noexcept override { return problem_.c_str(); }

 private:
  std::string problem_;
};

enum class JsonToken : std::uint8_t {
  kNull,
  kFalse,
  kTrue,
  kNumber,
  kText,
  kKey,  // its value follows
  kListBegin,
  kListEnd,
  kObjectBegin,
  kObjectEnd,
  kEnd,  // of the text, after one value
};

class JsonReader {
 public:
  enum class Numbers : std::uint8_t { kJson, kDecimal };
  explicit JsonReader(std::string_view text, Numbers numbers = Numbers::kJson)
      : text_(text), numbers_(numbers) {}

  JsonToken next();

  // Returns the number of a kNumber: an integer when it is written as one and fits, else a real,
  // perhaps infinite.
  Cell number() const { return number_; }
  // Returns the text of a kText or kKey; it is valid until next(), and may be taken.
  std::string& string() { return string_; }
  // Return, as offsets, where the token begins and what follows it.
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return at_; }

 private:
  enum class State : std::uint8_t { kValue, kFirstElement, kFirstKey, kKey, kAfterValue };

  [[noreturn]] void malformed() const;
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space();
  bool in_object() const { return objects_[depth_ - 1]; }
  JsonToken separator();
  JsonToken key();
  JsonToken value();
  JsonToken word(std::string_view word, JsonToken token);
  JsonToken open(bool object);
  JsonToken close(bool object);
  JsonToken scan_number();
  void scan_digits();
  void scan_string();
  void scan_escape();
  std::uint32_t scan_code_unit();

  std::string_view text_;
  Numbers numbers_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;
  std::size_t depth_ = 0;
  std::bitset<kMostJsonLevels> objects_;  // by level: an object, not a list
  State state_ = State::kValue;
  Cell number_;
  std::string string_;
  SparsePoll poll_{1024};
};

}  // namespace warplite::sql

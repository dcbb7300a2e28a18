#include "sql/host/json_reader.h"

#include <limits>

#include "core/utf8.h"
#include "sql/host/number_text.h"

namespace warplite::sql {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3f));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3f));
    put(0x80 | (point >> 6 & 0x3f));
  }
  put(0x80 | (point & 0x3f));
}

}  // namespace

void JsonReader::malformed() const {
  if (at_ == 0 && text_.starts_with(kByteOrderMark)) {
    throw JsonError("malformed JSON: it begins with a byte order mark");
  }
  if (at_ >= text_.size()) {
    throw JsonError("malformed JSON at byte " + std::to_string(at_ + 1) + ", where it ends");
  }
  constexpr std::size_t kShown = 12;
  throw JsonError("malformed JSON at byte " + std::to_string(at_ + 1) + ", at \"" +
                  printable(text_.substr(at_, kShown), 4 * kShown) + "\"");
}

void JsonReader::skip_space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' ||
                                text_[at_] == '\r')) {
    ++at_;
  }
}

JsonToken JsonReader::next() {
  poll_();
  skip_space();
  begin_ = at_;
  switch (state_) {
    case State::kValue: return value();
    case State::kFirstElement: return peek() == ']' ? close(false) : value();
    case State::kFirstKey: return peek() == '}' ? close(true) : key();
    case State::kKey: return key();
    case State::kAfterValue: break;
  }
  return separator();
}

// Reads what follows a value: what ends the list or object, or a comma and what follows it.
JsonToken JsonReader::separator() {
  if (depth_ == 0) {
    if (at_ != text_.size()) malformed();
    return JsonToken::kEnd;
  }
  const bool object = in_object();
  if (peek() == (object ? '}' : ']')) return close(object);
  if (peek() != ',') malformed();
  ++at_;
  skip_space();
  begin_ = at_;
  return object ? key() : value();
}

JsonToken JsonReader::key() {
  if (peek() != '"') malformed();
  scan_string();
  skip_space();
  if (peek() != ':') malformed();
  ++at_;
  state_ = State::kValue;
  return JsonToken::kKey;
}

JsonToken JsonReader::value() {
  state_ = State::kAfterValue;
  switch (peek()) {
    case '{': return open(true);
    case '[': return open(false);
    case '"': scan_string(); return JsonToken::kText;
    case 'n': return word("null", JsonToken::kNull);
    case 'f': return word("false", JsonToken::kFalse);
    case 't': return word("true", JsonToken::kTrue);
    default: return scan_number();
  }
}

JsonToken JsonReader::word(std::string_view word, JsonToken token) {
  const std::string_view rest = text_.substr(at_);
  const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  if (!rest.starts_with(word)) malformed();
  if (rest.size() > word.size() && is_letter(rest[word.size()])) malformed();
  at_ += word.size();
  return token;
}

JsonToken JsonReader::open(bool object) {
  if (depth_ == kMostJsonLevels) {
    throw JsonError("JSON of more than " + std::to_string(kMostJsonLevels) + " levels at byte " +
                    std::to_string(at_ + 1));
  }
  objects_[depth_++] = object;
  ++at_;
  state_ = object ? State::kFirstKey : State::kFirstElement;
  return object ? JsonToken::kObjectBegin : JsonToken::kListBegin;
}

JsonToken JsonReader::close(bool object) {
  --depth_;
  ++at_;
  state_ = State::kAfterValue;
  return object ? JsonToken::kObjectEnd : JsonToken::kListEnd;
}

void JsonReader::scan_digits() {
  if (!is_digit(peek())) malformed();
  while (is_digit(peek())) ++at_;
}

JsonToken JsonReader::scan_number() {
  const bool negative = peek() == '-';
  const bool decimal = numbers_ == Numbers::kDecimal;
  if (negative || (decimal && peek() == '+')) ++at_;
  if (peek() == 'I') {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    number_ = Cell::of(negative ? -kInfinity : kInfinity);
    return word("Inf", JsonToken::kNumber);
  }
  const bool whole = peek() != '.';
  if (peek() == '0' && !decimal) {
    ++at_;
  } else if (whole) {
    scan_digits();
  }
  if (peek() == '.') {
    ++at_;
    if (!whole || !decimal || is_digit(peek())) scan_digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    scan_digits();
  }
  number_ = *number_of(text_.substr(begin_, at_ - begin_));
  return JsonToken::kNumber;
}

void JsonReader::scan_string() {
  string_.clear();
  ++at_;
  for (;;) {
    const std::size_t from = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    string_.append(text_, from, at_ - from);
    if (peek() == '"') break;
    if (peek() != '\\') malformed();
    ++at_;
    scan_escape();
  }
  ++at_;
}

void JsonReader::scan_escape() {
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
  const std::size_t simple = at_ < text_.size() ? kLetters.find(text_[at_]) : kLetters.npos;
  if (simple != kLetters.npos) {
    string_ += kMeant[simple];
    ++at_;
    return;
  }
  std::uint32_t point = scan_code_unit();
  if (point >= 0xd800 && point < 0xdc00) {
    if (peek() != '\\') malformed();
    ++at_;
    const std::uint32_t low = scan_code_unit();
    if (low < 0xdc00 || low > 0xdfff) malformed();
    point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
  } else if (point >= 0xdc00 && point <= 0xdfff) {
    malformed();
  }
  append_utf8(string_, point);
}

// uXXXX
std::uint32_t JsonReader::scan_code_unit() {
  if (peek() != 'u') malformed();
  ++at_;
  std::uint32_t unit = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = peek();
    const char lower = static_cast<char>(c | 0x20);
    if (!is_digit(c) && (lower < 'a' || lower > 'f')) malformed();
    unit = unit * 16 + static_cast<std::uint32_t>(is_digit(c) ? c - '0' : lower - 'a' + 10);
  }
  return unit;
}

}  // namespace warplite::sql

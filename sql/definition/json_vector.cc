#include "sql/definition/json_vector.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/elements.h"
#include "core/error.h"
#include "core/utf8.h"
#include "sql/host/json_reader.h"

namespace warplite::sql {
namespace {

class VectorParser {
 public:
  VectorParser(std::string_view text, ElementType type)
      : text_(text), reader_(text, JsonReader::Numbers::kDecimal), type_(type) {
    result_.bytes.reserve(bytes_per_vector(type, text.size() / 4 / 8 * 8));
  }

  // False: problem() says what came.
  bool parse() try {
    if (const JsonToken token = reader_.next(); token != JsonToken::kListBegin) {
      return unexpected(words(token), " instead of an array");
    }
    for (JsonToken token; (token = reader_.next()) != JsonToken::kListEnd;) {
      if (token != JsonToken::kNumber) return misfit(words(token));
      if (!add(reader_.number())) return false;
    }
    return reader_.next() == JsonToken::kEnd;
  } catch (const JsonError& error) {
    return unexpected(error.what(), "");
  }

  const std::string& problem() const { return problem_; }
  JsonVector take() { return std::move(result_); }

 private:
  static std::string words(JsonToken token) {
    switch (token) {
      case JsonToken::kNull: return "null";
      case JsonToken::kFalse: return "false";
      case JsonToken::kTrue: return "true";
      case JsonToken::kText: return "a string";
      case JsonToken::kListBegin: return "an array";
      case JsonToken::kObjectBegin: return "an object";
      default: return "a number";
    }
  }

  bool unexpected(const std::string& what, const std::string& where) {
    problem_ = "got " + what + where;
    return false;
  }
  bool misfit(const std::string& what) {
    return unexpected(what, " as element [" + std::to_string(result_.count) + "]");
  }
  bool misfit() { return misfit(written()); }
  // The number as it is in the text.
  std::string written() const {
    return std::string(text_.substr(reader_.begin(), reader_.end() - reader_.begin()));
  }

  bool add(const Cell& number) {
    const double value = number.kind == CellKind::kInteger ? static_cast<double>(number.integer)
                                                           : number.real;
    if (std::isinf(value)) {
      return unexpected("a number that is too large at byte " + std::to_string(reader_.end()),
                        ": " + written());
    }
    switch (property<&ElementInfo::numbers>(type_)) {
      case Numbers::kReal: break;
      case Numbers::kInteger:
        if (value != std::trunc(value) || value < -128 || value > 127) return misfit();
        break;
      case Numbers::kBits:
        if (value != 0 && value != 1) return misfit();
        return append_bit(value != 0);
    }
    bool fits = false;
    with_numbers(type_, [&]<ElementType kType>() { fits = append<kType>(value); });
    return fits || misfit();
  }

  template <ElementType kType>
  bool append(double value) {
    using Word = typename Element<kType>::Word;
    const Word word = Element<kType>::nearest(static_cast<float>(value));
    if (!std::isfinite(Element<kType>::value(word))) return false;
    const auto* bytes = reinterpret_cast<const std::byte*>(&word);
    result_.bytes.insert(result_.bytes.end(), bytes, bytes + sizeof word);
    ++result_.count;
    return true;
  }

  bool append_bit(bool bit) {
    const std::size_t shift = result_.count % 8;
    if (shift == 0) result_.bytes.push_back(std::byte{0});
    if (bit) result_.bytes.back() |= std::byte{1} << shift;
    ++result_.count;
    return true;
  }

  std::string_view text_;
  JsonReader reader_;
  ElementType type_;
  JsonVector result_;
  std::string problem_;
};

}  // namespace

JsonVector parse_json_vector(std::string_view text, ElementType type, const Place& where) {
  VectorParser parser(text, type);
  if (!parser.parse()) {
    throw Error(ErrorKind::kInvalid, where.text() + ": expected a JSON array of " +
                                         property<&ElementInfo::accepted>(type) + ", " + parser.problem() +
                                         std::string(advice_on_bytes(text)));
  }
  return parser.take();
}

std::string_view advice_on_bytes(std::string_view text) {
  CodePoints points;
  decode_utf8(text.substr(0, 4096), points);
  const bool bytes = std::any_of(points.begin(), points.end(), [](std::uint32_t point) {
    const bool control = point < 0x20 && point != '\t' && point != '\n' && point != '\r';
    return control || point >> 8 == kInvalidByte >> 8;
  });
  return bytes && text.find_first_of("[{") != 0 ? "; a vector's bytes must be bound as a BLOB, not as a text" : "";
}

}  // namespace warplite::sql

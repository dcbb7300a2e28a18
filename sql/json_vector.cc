#include "sql/json_vector.h"

#include <cmath>
#include <cstring>
#include <string>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/half.h"

namespace warplite::sql {
namespace {

using Json = nlohmann::json;

// Events of the parser, in document order. A handler that returns false ends the parse.
class Handler : public Json::json_sax_t {
 public:
  Handler(ElementType type, std::size_t text_size) : type_(type) {
    result_.bytes.reserve(bytes_per_vector(type, text_size / 4 / 8 * 8));
  }

  bool number_integer(number_integer_t value) override { return add(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool string(string_t&) override { return unexpected("a string"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool start_object(std::size_t) override { return unexpected("an object"); }
  bool key(string_t&) override { return unexpected("an object"); }
  bool end_object() override { return unexpected("an object"); }
  bool start_array(std::size_t) override {
    if (inside_) return unexpected("an array");
    inside_ = true;
    return true;
  }
  bool end_array() override { return true; }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    // 406: a number beyond the range of double; the others are errors of syntax.
    problem_ = error.id == 406
                   ? "got a number that is too large at byte " + std::to_string(position) + ": " +
                         token
                   : "got malformed JSON at byte " + std::to_string(position);
    return false;
  }

  const std::string& problem() const { return problem_; }
  JsonVector take() { return std::move(result_); }

 private:
  bool unexpected(const std::string& what) {
    problem_ = "got " + what + (inside_ ? " as element [" + std::to_string(result_.count) + "]"
                                        : std::string(" instead of an array"));
    return false;
  }

  bool misfit(double value) {
    const double rounded = std::trunc(value);
    const std::string number = rounded == value && std::fabs(value) < 1e15
                                   ? std::to_string(static_cast<long long>(value))
                                   : Json(value).dump();
    return unexpected(number);
  }

  bool add(double value) {
    if (!inside_) return unexpected("a number");
    switch (type_) {
      case ElementType::kFloat32: {
        const float narrow = static_cast<float>(value);
        if (!std::isfinite(narrow)) return misfit(value);
        return append(&narrow, sizeof narrow);
      }
      case ElementType::kFloat16: {
        const std::uint16_t narrow = float_to_half(static_cast<float>(value));
        if ((narrow & 0x7c00u) == 0x7c00u) return misfit(value);
        return append(&narrow, sizeof narrow);
      }
      case ElementType::kInt8: {
        if (value != std::trunc(value) || value < -128 || value > 127) return misfit(value);
        const std::int8_t narrow = static_cast<std::int8_t>(value);
        return append(&narrow, sizeof narrow);
      }
      case ElementType::kBit:
        if (value != 0 && value != 1) return misfit(value);
        return append_bit(value != 0);
    }
    return false;
  }

  bool append(const void* element, std::size_t size) {
    const std::byte* bytes = static_cast<const std::byte*>(element);
    result_.bytes.insert(result_.bytes.end(), bytes, bytes + size);
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

  ElementType type_;
  bool inside_ = false;
  JsonVector result_;
  std::string problem_;
};

const char* element_words(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "numbers in the range of float32";
    case ElementType::kFloat16: return "numbers in the range of float16 (below 65520)";
    case ElementType::kInt8: return "integers from -128 to 127";
    case ElementType::kBit: return "zeros and ones";
  }
  return "numbers";
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The parser passes over a byte order mark and ends at a NUL; neither belongs into JSON.
bool is_plain_text(std::string_view text) {
  return !text.starts_with("\xEF\xBB\xBF") && text.find('\0') == text.npos;
}

// '[.5, -.5]' is not JSON, but users of sqlite-vec write it: puts the zeros in.
std::string with_leading_zeros(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool bare = text[i] == '.' && (i == 0 || !is_digit(text[i - 1])) &&
                      i + 1 < text.size() && is_digit(text[i + 1]);
    if (bare) out += '0';
    out += text[i];
  }
  return out;
}

}  // namespace

JsonVector parse_json_vector(std::string_view text, ElementType type, const Place& where) {
  Handler handler(type, text.size());
  if (!is_plain_text(text)) {
    throw Error(ErrorKind::kInvalid, where.text() + ": expected a JSON array of " +
                                         element_words(type) +
                                         ", got text with a byte order mark or a NUL");
  }
  if (Json::sax_parse(text.begin(), text.end(), &handler)) return handler.take();
  const std::string mended = with_leading_zeros(text);
  Handler again(type, mended.size());
  if (mended.size() == text.size() || !Json::sax_parse(mended, &again)) {
    throw Error(ErrorKind::kInvalid, where.text() + ": expected a JSON array of " +
                                         element_words(type) + ", " + handler.problem());
  }
  return again.take();
}

}  // namespace warplite::sql

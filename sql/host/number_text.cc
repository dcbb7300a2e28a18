#include "sql/host/number_text.h"

#include <charconv>
#include <cstdint>
#include <limits>

namespace warplite::sql {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Numeric text taken apart: an optional sign, digits with at most one point, an exponent.
struct NumericText {
  std::string_view number;  // without white space around it and without a leading '+'
  bool integer = true;      // no point and no exponent
  long magnitude = 0;       // decimal exponent of the first significant digit, exponent included
};

// Returns nothing for text that SQLite does not take as a number ("12abc", "0x10", "", "1e").
std::optional<NumericText> scan_number(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return std::nullopt;
  }
  NumericText result;
  result.number = text;
  std::size_t i = !text.empty() && text.front() == '-' ? 1 : 0;
  std::size_t digits = 0;
  bool significant = false;
  for (; i < text.size() && is_digit(text[i]); ++i, ++digits) {
    significant = significant || text[i] != '0';
    if (significant) ++result.magnitude;
  }
  if (i < text.size() && text[i] == '.') {
    result.integer = false;
    for (++i; i < text.size() && is_digit(text[i]); ++i, ++digits) {
      significant = significant || text[i] != '0';
      if (!significant) --result.magnitude;
    }
  }
  if (digits == 0) return std::nullopt;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    result.integer = false;
    ++i;
    const bool negative = i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    const std::size_t first = i;
    long exponent = 0;
    for (; i < text.size() && is_digit(text[i]); ++i) {
      if (exponent < 100000000) exponent = exponent * 10 + (text[i] - '0');
    }
    if (i == first) return std::nullopt;
    result.magnitude += negative ? -exponent : exponent;
  }
  if (i != text.size()) return std::nullopt;
  return result;
}

}  // namespace

std::optional<Cell> number_of(std::string_view text) {
  const std::optional<NumericText> scanned = scan_number(text);
  if (!scanned) return std::nullopt;
  const char* begin = scanned->number.data();
  const char* end = begin + scanned->number.size();
  if (scanned->integer) {
    std::int64_t value = 0;
    if (std::from_chars(begin, end, value).ec == std::errc()) return Cell::of(value);
  }
  double value = 0;
  if (std::from_chars(begin, end, value).ec == std::errc::result_out_of_range) {
    value = scanned->magnitude > 0 ? std::numeric_limits<double>::infinity() : 0.0;
    if (*begin == '-') value = -value;
  }
  return Cell::of(value);
}

}  // namespace warplite::sql

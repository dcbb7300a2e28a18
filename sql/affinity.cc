// Plain values: what a STRICT table stores and what a comparison compares.
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "sql/values.h"

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

// Nothing for text that SQLite does not take as a number ("12abc", "0x10", "", "1e").
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

// The number that text stands for: an integer when it is written as one and fits.
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

// A real that is a whole number well inside int64 becomes an integer.
Cell prefer_integer(const Cell& cell) {
  constexpr double kLimit = 9223372036854775807.0;  // 2^63 as a double
  if (cell.kind != CellKind::kReal || !(cell.real > -kLimit && cell.real < kLimit)) return cell;
  const std::int64_t whole = static_cast<std::int64_t>(cell.real);
  return static_cast<double>(whole) == cell.real ? Cell::of(whole) : cell;
}

const char* column_type_name(PlainType type) {
  switch (type) {
    case PlainType::kInteger: return "INTEGER";
    case PlainType::kReal: return "REAL";
    case PlainType::kText: return "TEXT";
    case PlainType::kBoolean: return "BOOLEAN (0 or 1)";
  }
  return "?";
}

[[noreturn]] void refuse_value(const Cell& cell, PlainType type, const Place& where) {
  throw Error(ErrorKind::kConstraint, where.text() + ": expected " + column_type_name(type) +
                                          ", got " + describe(cell));
}

Cell to_text(const Cell& cell, const Place& where, std::string& storage) {
  char number[64];
  if (cell.kind == CellKind::kInteger) {
    storage = std::to_string(cell.integer);
  } else if (cell.kind == CellKind::kReal) {
    storage = sqlite3_snprintf(sizeof number, number, "%!.15g", cell.real);
  } else {
    refuse_value(cell, PlainType::kText, where);
  }
  return Cell::text(storage);
}

}  // namespace

Cell to_column(const Cell& cell, PlainType type, const Place& where, std::string& storage) {
  if (cell.is_null()) return cell;
  if (type == PlainType::kText) {
    return cell.kind == CellKind::kText ? cell : to_text(cell, where, storage);
  }
  Cell number = cell;
  if (cell.kind == CellKind::kText) number = number_of(cell.bytes).value_or(cell);
  if (type == PlainType::kReal) {
    if (number.kind == CellKind::kInteger) number = Cell::of(static_cast<double>(number.integer));
    if (number.kind != CellKind::kReal) refuse_value(cell, type, where);
    return number;
  }
  number = prefer_integer(number);
  if (number.kind != CellKind::kInteger) refuse_value(cell, type, where);
  if (type == PlainType::kBoolean && number.integer != 0 && number.integer != 1) {
    refuse_value(number, type, where);
  }
  return number;
}

Cell apply_affinity(const Cell& cell, std::string_view declared, std::string& storage) {
  const bool none = declared.empty() || declared == "BLOB";
  if (none || cell.is_null() || cell.kind == CellKind::kBlob) return cell;
  if (declared == "TEXT") {
    return cell.kind == CellKind::kText ? cell : to_text(cell, Place(declared), storage);
  }
  Cell number = cell;
  if (cell.kind == CellKind::kText) number = number_of(cell.bytes).value_or(cell);
  if (declared != "REAL") return prefer_integer(number);
  return number.kind == CellKind::kInteger ? Cell::of(static_cast<double>(number.integer)) : number;
}

Value compare_operand(const Cell& cell, PlainType type) {
  if (type != PlainType::kText && cell.kind == CellKind::kText) {
    return Value(number_of(cell.bytes).value_or(cell));
  }
  return Value(cell);
}

}  // namespace warplite::sql

// Plain values: what a STRICT table stores and what a comparison compares.
#include <cstdint>
#include <new>

#include "core/error.h"
#include "sql/definition/values.h"

namespace warplite::sql {
namespace {

// A value with text that is a number made one, as the host reads it.
Cell number_of(sqlite3_value* value) {
  sqlite3_value_numeric_type(value);
  return cell_of(value);
}

// A value with a number made text, as the host prints it.
Cell text_of(sqlite3_value* value) {
  const char* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
  if (text == nullptr) throw std::bad_alloc();
  return Cell::text({text, static_cast<std::size_t>(sqlite3_value_bytes(value))});
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
    case PlainType::kSparse: return "SPARSE";
  }
  return "?";
}

[[noreturn]] void refuse_value(const Cell& cell, PlainType type, const Place& where) {
  throw Error(ErrorKind::kConstraint, where.text() + ": expected " + column_type_name(type) +
                                          ", got " + describe(cell));
}

}  // namespace

Cell to_column(sqlite3_value* value, PlainType type, const Place& where) {
  const int given = sqlite3_value_type(value);
  if (given == SQLITE_NULL) return Cell::null();
  if (given == SQLITE_BLOB) refuse_value(cell_of(value), type, where);
  if (type == PlainType::kText) return text_of(value);
  Cell number = number_of(value);
  if (type == PlainType::kReal) {
    if (number.kind == CellKind::kInteger) number = Cell::of(static_cast<double>(number.integer));
    if (number.kind != CellKind::kReal) refuse_value(number, type, where);
    return number;
  }
  number = prefer_integer(number);
  if (number.kind != CellKind::kInteger) refuse_value(number, type, where);
  if (type == PlainType::kBoolean && number.integer != 0 && number.integer != 1) {
    refuse_value(number, type, where);
  }
  return number;
}

Cell apply_affinity(sqlite3_value* value, std::string_view declared) {
  const int given = sqlite3_value_type(value);
  const bool none = declared.empty() || declared == "BLOB";
  if (none || given == SQLITE_NULL || given == SQLITE_BLOB) return cell_of(value);
  if (declared == "TEXT") return text_of(value);
  const Cell number = number_of(value);
  if (declared != "REAL") return prefer_integer(number);
  return number.kind == CellKind::kInteger ? Cell::of(static_cast<double>(number.integer)) : number;
}

Value compare_operand(sqlite3_value* value, PlainType type) {
  return Value(type == PlainType::kText ? cell_of(value) : number_of(value));
}

}  // namespace warplite::sql

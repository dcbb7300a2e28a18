// SQL values as the layers below sql/ see them. Cell borrows, Value owns.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace warplite {

// Type of a column that is stored by value. Persisted: values never change.
enum class PlainType : std::uint8_t {
  kInteger = 1,
  kReal = 2,
  kText = 3,
  kBoolean = 4,
  kSparse = 5,  // blobs, of core/sparse.h; what is searched by distance, and no filter
};

// The collations a pushed-down text predicate may follow (SQLite's built-in three).
enum class Collation : std::uint8_t { kBinary, kNoCase, kRTrim };

enum class CellKind : std::uint8_t { kNull, kInteger, kReal, kText, kBlob };

// A value that lives elsewhere (an sqlite3_value, a block). Copying is cheap.
struct Cell {
  CellKind kind = CellKind::kNull;
  union {
    std::int64_t integer = 0;
    double real;
  };
  std::string_view bytes;  // text (UTF-8) or blob

  static Cell null() { return {}; }
  static Cell of(std::int64_t v) {
    Cell c;
    c.kind = CellKind::kInteger;
    c.integer = v;
    return c;
  }
  static Cell of(double v) {
    Cell c;
    c.kind = CellKind::kReal;
    c.real = v;
    return c;
  }
  static Cell text(std::string_view v) {
    Cell c;
    c.kind = CellKind::kText;
    c.bytes = v;
    return c;
  }
  static Cell blob(std::string_view v) {
    Cell c;
    c.kind = CellKind::kBlob;
    c.bytes = v;
    return c;
  }
  bool is_null() const { return kind == CellKind::kNull; }
};

// Returns -1, 0 or 1 as `real`, which is a number, is below, equal to or above `integer`. Neither is
// rounded, which a conversion to double or, on some machines, to long double would do.
inline int compare_exactly(double real, std::int64_t integer) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (real >= kTwo63) return 1;
  if (real < -kTwo63) return -1;
  const double floor = std::floor(real);
  const auto whole = static_cast<std::int64_t>(floor);
  if (whole != integer) return whole < integer ? -1 : 1;
  return real > floor ? 1 : 0;
}

class Value {
 public:
  Value() = default;
  explicit Value(const Cell& cell) : cell_(cell), bytes_(cell.bytes) {}

  CellKind kind() const { return cell_.kind; }
  bool is_null() const { return cell_.is_null(); }
  // Valid while this Value lives and is not assigned to.
  Cell cell() const {
    Cell cell = cell_;
    cell.bytes = bytes_;
    return cell;
  }

 private:
  Cell cell_;
  std::string bytes_;
};

}  // namespace warplite

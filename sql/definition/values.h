// SQL values in and out: vectors from BLOBs and JSON, plain values by affinity,
// and back. Every check on user input lives here, once, and every error names
// the place, what was expected and what came.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "core/value.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

// The subtype of SQL values that are sparse vectors; those of dense ones are in the list of types.
inline constexpr unsigned kSparseSubtype = 228;

const char* type_name(ElementType type);      // "float32" …, as vec_type() says
const char* declared_name(ElementType type);  // "FLOAT" …, as a column is declared

// A Place says what a value is for, as error messages begin: "papers.embedding", or a function's
// name. It borrows its parts, so that naming a place costs nothing on the way to success.
struct Place {
  std::string_view table;
  std::string_view column;

  Place(std::string_view whole) : table(whole) {}
  Place(const std::string& whole) : table(whole) {}
  Place(const char* whole) : table(whole) {}
  Place(std::string_view table_name, std::string_view column_name)
      : table(table_name), column(column_name) {}
  std::string text() const;
};

// Vector bytes of a known type: borrowed from the sqlite3_value when it holds exactly these
// bytes, else owned. Valid while the value is.
struct VectorInput {
  ElementType type = ElementType::kFloat32;
  std::uint32_t dim = 0;
  const std::byte* data = nullptr;
  std::size_t size = 0;
  std::vector<std::byte> owned;

  VectorInput() = default;
  VectorInput(VectorInput&&) = default;
  VectorInput& operator=(VectorInput&&) = default;

  // Returns the vector as a row of storage wants it.
  Cell cell() const { return Cell::blob({reinterpret_cast<const char*>(data), size}); }
};

// A value for a column (or a query on it) of a declared type and dimension. BLOB: little-endian
// elements of exactly the declared size (narrower ones than float32 also from dim float32 values, rounded); a BLOB
// whose subtype says another element type is refused. TEXT: a JSON array of numbers (INT8: integers
// −128…127; BIT: dim zeros and ones). Refuses NaN, infinity, wrong lengths, other types. Not for NULL.
VectorInput vector_for_column(sqlite3_value* value, ElementType type, std::uint32_t dim,
                              const Place& where);

// A value for a scalar function: the subtype gives the element type, no subtype means float32,
// TEXT is a JSON array of float32.
VectorInput vector_argument(sqlite3_value* value, const Place& where);

// The same, as a given type and of any dimension (vec_int8(x)); a subtype that says another type
// is refused.
VectorInput vector_of_type(sqlite3_value* value, ElementType type, const Place& where);

// The element type that a BLOB's subtype says, if it says any.
std::optional<ElementType> marked_type(sqlite3_value* value);

// Does the checks of vector_for_column() for a part of a value, or what is no sqlite3_value: it
// reads raw cells.
VectorInput vector_from_cell(const Cell& cell, ElementType type, std::uint32_t dim,
                             const Place& where);

// Elements as float32: converted from FLOAT16 and INT8, copied from FLOAT32. REQUIRES: not BIT.
std::vector<float> floats_of(const VectorInput& vector);

void result_vector(sqlite3_context* context, ElementType type, const void* data,
                   std::size_t size);
std::string vector_to_json(ElementType type, std::uint32_t dim, const std::byte* data);

// Borrows an sqlite3_value. Text is UTF-8.
Cell cell_of(sqlite3_value* value);
// Borrows column `column` of a statement's current row.
Cell column_cell(sqlite3_stmt* statement, int column);
void result_cell(sqlite3_context* context, const Cell& cell);
// "a BLOB of 12 bytes", "the text 'abc'", "5", "NULL": what came, for error messages.
std::string describe(const Cell& cell);

// The next three convert as the host does, in the value itself: digits of a printed REAL and the last
// bit of one that was read depend on SQLite's version. What they return borrows it.

// Stores into a plain column as a STRICT table would: '2020' and 2020.0 become 2020 for INTEGER,
// 5 becomes '5' for TEXT, 2 becomes 2.0 for REAL; what cannot be converted without loss is
// Error{kConstraint} "t.c: expected INTEGER, got the text 'soon'". BOOLEAN takes 0 and 1.
Cell to_column(sqlite3_value* value, PlainType type, const Place& where);

// Returns what an ordinary column declared INTEGER, REAL, TEXT, BOOLEAN, BLOB or nothing would
// store (+columns): it converts where that loses nothing and keeps the value otherwise.
Cell apply_affinity(sqlite3_value* value, std::string_view declared);

// SQLite's affinity for comparisons with a plain column (datatype3.html §4.2): numeric columns turn
// numeric-looking text into numbers and leave other text alone; nothing is applied for TEXT columns.
Value compare_operand(sqlite3_value* value, PlainType type);

}  // namespace warplite::sql

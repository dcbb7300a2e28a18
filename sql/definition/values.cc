#include "sql/definition/values.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "core/elements.h"
#include "core/error.h"
#include "core/utf8.h"
#include "sql/definition/json_vector.h"

namespace warplite::sql {
namespace {

constexpr std::uint32_t kAnyDimension = 0;

const char* accepted_words(ElementType type) { return property<&ElementInfo::accepted>(type); }

// "a FLOAT[4] vector (16 bytes of float32, or a JSON array of 4 numbers)".
std::string expectation(ElementType type, std::uint32_t dim) {
  const std::string declared =
      (declared_name(type)[0] == 'I' ? "an " : "a ") + std::string(declared_name(type));
  if (dim == kAnyDimension) {
    return declared + " vector (a BLOB of " + type_name(type) +
           " values, or a JSON array of numbers)";
  }
  const std::string n = std::to_string(dim);
  std::string blob = std::to_string(bytes_per_vector(type, dim)) + " bytes of " + type_name(type);
  if (is_narrow_real(type)) blob += ", " + std::to_string(dim * 4) + " of float32";
  return declared + "[" + n + "] vector (" + blob + ", or a JSON array of " + n + " numbers)";
}

[[noreturn]] void refuse(const Place& where, ElementType type, std::uint32_t dim,
                         const std::string& got) {
  throw Error(ErrorKind::kInvalid,
              where.text() + ": expected " + expectation(type, dim) + ", got " + got);
}

void check_finite(const VectorInput& vector, const Place& where) {
  if (all_finite(vector.type, {vector.data, vector.size})) return;
  std::size_t i = 0;
  while (std::isfinite(element_at(vector.type, vector.data, i))) ++i;
  const float value = element_at(vector.type, vector.data, i);
  throw Error(ErrorKind::kInvalid,
              where.text() + ": expected finite numbers, got " +
                  (std::isnan(value) ? "NaN" : value > 0 ? "infinity" : "-infinity") +
                  " as element [" + std::to_string(i) + "] of a " + declared_name(vector.type) +
                  "[" + std::to_string(vector.dim) + "] vector");
}

VectorInput own(ElementType type, std::uint32_t dim, std::vector<std::byte> bytes) {
  VectorInput vector;
  vector.type = type;
  vector.dim = dim;
  vector.owned = std::move(bytes);
  vector.data = vector.owned.data();
  vector.size = vector.owned.size();
  return vector;
}

VectorInput from_json(std::string_view text, ElementType type, std::uint32_t dim,
                      const Place& where) {
  JsonVector parsed = parse_json_vector(text, type, where);
  if (dim == kAnyDimension) {
    if (parsed.count == 0) refuse(where, type, dim, "an empty JSON array");
    if (is_bits(type) && parsed.count % 8 != 0) {
      refuse(where, type, dim,
             "a JSON array of " + std::to_string(parsed.count) + " bits, not a multiple of 8");
    }
  } else if (parsed.count != dim) {
    refuse(where, type, dim, "a JSON array of " + std::to_string(parsed.count) + " numbers");
  }
  return own(type, static_cast<std::uint32_t>(parsed.count), std::move(parsed.bytes));
}

// dim float32 values for a column of narrower ones.
template <ElementType kType>
VectorInput narrow(std::string_view blob, std::uint32_t dim, const Place& where) {
  std::vector<std::byte> bytes(bytes_per_vector(kType, dim));
  for (std::uint32_t i = 0; i < dim; ++i) {
    const float wide = read_element<ElementType::kFloat32>(
        reinterpret_cast<const std::byte*>(blob.data()), i);
    write_element<kType>(wide, bytes.data(), i);
    if (!std::isfinite(read_element<kType>(bytes.data(), i))) {
      const std::string came = std::isnan(wide) ? "NaN" : std::to_string(wide);
      throw Error(ErrorKind::kInvalid, where.text() + ": expected " + accepted_words(kType) +
                                           ", got " + came + " as element [" +
                                           std::to_string(i) + "]");
    }
  }
  return own(kType, dim, std::move(bytes));
}

// Null where no element type has that subtype.
const ElementInfo* element_of_subtype(unsigned subtype) {
  for (const ElementInfo& row : kElementTypes) {
    if (row.subtype == subtype) return &row;
  }
  return nullptr;
}

VectorInput from_blob(std::string_view blob, ElementType type, std::uint32_t dim,
                      unsigned subtype, const Place& where) {
  const ElementInfo* came = element_of_subtype(subtype);
  const bool other_type = came != nullptr && came->type != type;
  const bool wide = is_narrow_real(type) && dim != kAnyDimension &&
                    blob.size() == bytes_per_vector(ElementType::kFloat32, dim);
  if (wide && (!other_type || came->type == ElementType::kFloat32)) {
    VectorInput rounded;
    with_numbers(type, [&]<ElementType kType>() { rounded = narrow<kType>(blob, dim, where); });
    return rounded;
  }
  if (other_type) refuse(where, type, dim, "a vector of " + std::string(came->name));
  if (subtype == kSparseSubtype) refuse(where, type, dim, "a sparse vector");
  const std::size_t whole = bytes_per_vector(type, 8);  // bytes of eight elements
  const std::size_t count = blob.size() * 8 / whole;
  const bool fits = dim == kAnyDimension
                        ? count > 0 && count <= UINT32_MAX && count * whole == blob.size() * 8
                        : blob.size() == bytes_per_vector(type, dim);
  if (!fits) {
    const bool doubles = type == ElementType::kFloat32 && !blob.empty() && blob.size() == std::size_t{dim} * 8;
    refuse(where, type, dim, describe(Cell::blob(blob)) + (doubles ? ", as of float64" : ""));
  }
  VectorInput vector;
  vector.type = type;
  vector.dim = static_cast<std::uint32_t>(count);
  vector.data = reinterpret_cast<const std::byte*>(blob.data());
  vector.size = blob.size();
  check_finite(vector, where);
  return vector;
}

VectorInput decode(const Cell& cell, ElementType type, std::uint32_t dim, unsigned subtype,
                   const Place& where) {
  if (cell.kind == CellKind::kBlob) return from_blob(cell.bytes, type, dim, subtype, where);
  if (cell.kind == CellKind::kText) return from_json(cell.bytes, type, dim, where);
  refuse(where, type, dim, describe(cell));
}

}  // namespace

const char* type_name(ElementType type) { return property<&ElementInfo::name>(type); }

const char* declared_name(ElementType type) { return property<&ElementInfo::declared>(type); }

std::string Place::text() const {
  std::string text(table);
  if (!column.empty()) text.append(".").append(column);
  return text;
}

VectorInput vector_for_column(sqlite3_value* value, ElementType type, std::uint32_t dim,
                              const Place& where) {
  return decode(cell_of(value), type, dim, sqlite3_value_subtype(value), where);
}

VectorInput vector_argument(sqlite3_value* value, const Place& where) {
  const ElementType type = marked_type(value).value_or(ElementType::kFloat32);
  return decode(cell_of(value), type, kAnyDimension, sqlite3_value_subtype(value), where);
}

std::optional<ElementType> marked_type(sqlite3_value* value) {
  if (sqlite3_value_type(value) != SQLITE_BLOB) return std::nullopt;
  const ElementInfo* row = element_of_subtype(sqlite3_value_subtype(value));
  return row != nullptr ? std::optional(row->type) : std::nullopt;
}

VectorInput vector_of_type(sqlite3_value* value, ElementType type, const Place& where) {
  return decode(cell_of(value), type, kAnyDimension, sqlite3_value_subtype(value), where);
}

VectorInput vector_from_cell(const Cell& cell, ElementType type, std::uint32_t dim,
                             const Place& where) {
  return decode(cell, type, dim, 0, where);
}

std::vector<float> floats_of(const VectorInput& vector) {
  std::vector<float> floats(vector.dim);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    floats[i] = element_at(vector.type, vector.data, i);
  }
  return floats;
}

void result_vector(sqlite3_context* context, ElementType type, const void* data,
                   std::size_t size) {
  sqlite3_result_blob64(context, data, size, SQLITE_TRANSIENT);
  sqlite3_result_subtype(context, property<&ElementInfo::subtype>(type));
}

std::string vector_to_json(ElementType type, std::uint32_t dim, const std::byte* data) {
  std::string json = "[";
  char number[64];
  for (std::uint32_t i = 0; i < dim; ++i) {
    if (i > 0) json += ',';
    switch (property<&ElementInfo::numbers>(type)) {
      case Numbers::kBits:
        json += ((static_cast<unsigned>(data[i / 8]) >> (i % 8)) & 1) != 0 ? '1' : '0';
        break;
      case Numbers::kInteger:
        json += std::to_string(static_cast<int>(element_at(type, data, i)));
        break;
      case Numbers::kReal:
        // Six decimals, which is what users of sqlite-vec see.
        json += sqlite3_snprintf(sizeof number, number, "%f",
                                 static_cast<double>(element_at(type, data, i)));
        break;
    }
  }
  return json + "]";
}

Cell cell_of(sqlite3_value* value) {
  switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER: return Cell::of(static_cast<std::int64_t>(sqlite3_value_int64(value)));
    case SQLITE_FLOAT: return Cell::of(sqlite3_value_double(value));
    case SQLITE_TEXT: {
      const char* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
      if (text == nullptr) throw std::bad_alloc();
      return Cell::text({text, static_cast<std::size_t>(sqlite3_value_bytes(value))});
    }
    case SQLITE_BLOB: {
      const char* blob = static_cast<const char*>(sqlite3_value_blob(value));
      const std::size_t size = static_cast<std::size_t>(sqlite3_value_bytes(value));
      if (blob == nullptr && size != 0) throw std::bad_alloc();
      return Cell::blob({blob, size});
    }
    default: return Cell::null();
  }
}

Cell column_cell(sqlite3_stmt* statement, int column) {
  return cell_of(sqlite3_column_value(statement, column));
}

void result_cell(sqlite3_context* context, const Cell& cell) {
  const char* bytes = cell.bytes.data() != nullptr ? cell.bytes.data() : "";
  switch (cell.kind) {
    case CellKind::kNull: sqlite3_result_null(context); break;
    case CellKind::kInteger: sqlite3_result_int64(context, cell.integer); break;
    case CellKind::kReal: sqlite3_result_double(context, cell.real); break;
    case CellKind::kText:
      sqlite3_result_text64(context, bytes, cell.bytes.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
      break;
    case CellKind::kBlob:
      sqlite3_result_blob64(context, bytes, cell.bytes.size(), SQLITE_TRANSIENT);
      break;
  }
}

std::string describe(const Cell& cell) {
  constexpr std::size_t kShown = 40;
  switch (cell.kind) {
    case CellKind::kNull: return "NULL";
    case CellKind::kInteger: return "the integer " + std::to_string(cell.integer);
    case CellKind::kReal: {
      char number[64];
      return std::string("the real ") +
             sqlite3_snprintf(sizeof number, number, "%!.15g", cell.real);
    }
    case CellKind::kText:
      if (cell.bytes.size() > kShown) {
        return "a text of " + std::to_string(cell.bytes.size()) + " bytes";
      }
      return "the text '" + printable(cell.bytes, 4 * kShown) + "'";
    case CellKind::kBlob:
      return "a BLOB of " + std::to_string(cell.bytes.size()) +
             (cell.bytes.size() == 1 ? " byte" : " bytes");
  }
  return "?";
}

}  // namespace warplite::sql

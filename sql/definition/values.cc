#include "sql/definition/values.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "core/error.h"
#include "core/half.h"
#include "sql/definition/json_vector.h"

namespace warplite::sql {
namespace {

constexpr std::uint32_t kAnyDimension = 0;

std::size_t element_bits(ElementType type) { return bytes_per_vector(type, 8); }

// "a FLOAT[4] vector (16 bytes of float32, or a JSON array of 4 numbers)".
std::string expectation(ElementType type, std::uint32_t dim) {
  const std::string declared =
      (type == ElementType::kInt8 ? "an " : "a ") + std::string(declared_name(type));
  if (dim == kAnyDimension) {
    return declared + " vector (a BLOB of " + type_name(type) +
           " values, or a JSON array of numbers)";
  }
  const std::string n = std::to_string(dim);
  std::string blob = std::to_string(bytes_per_vector(type, dim)) + " bytes of " + type_name(type);
  if (type == ElementType::kFloat16) blob += ", " + std::to_string(dim * 4) + " of float32";
  return declared + "[" + n + "] vector (" + blob + ", or a JSON array of " + n + " numbers)";
}

[[noreturn]] void refuse(const Place& where, ElementType type, std::uint32_t dim,
                         const std::string& got) {
  throw Error(ErrorKind::kInvalid,
              where.text() + ": expected " + expectation(type, dim) + ", got " + got);
}

// True when an element's exponent is all ones (NaN or infinity): adding one to the exponent then
// carries into the cleared sign bit. Without a branch, so that the compiler vectorises.
template <typename Word, Word kMagnitude, Word kExponentOne>
bool any_special(const std::byte* data, std::size_t count) {
  Word seen = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, data + i * sizeof(Word), sizeof word);
    seen = static_cast<Word>(seen | static_cast<Word>((word & kMagnitude) + kExponentOne));
  }
  return (seen & static_cast<Word>(~kMagnitude)) != 0;
}

float element_as_float(ElementType type, const std::byte* data, std::size_t i) {
  if (type == ElementType::kFloat32) {
    float value;
    std::memcpy(&value, data + i * 4, 4);
    return value;
  }
  if (type == ElementType::kFloat16) {
    std::uint16_t value;
    std::memcpy(&value, data + i * 2, 2);
    return half_to_float(value);
  }
  return static_cast<float>(static_cast<std::int8_t>(data[i]));
}

void check_finite(const VectorInput& vector, const Place& where) {
  bool special = false;
  if (vector.type == ElementType::kFloat32) {
    special = any_special<std::uint32_t, 0x7fffffffu, 0x00800000u>(vector.data, vector.dim);
  } else if (vector.type == ElementType::kFloat16) {
    special = any_special<std::uint16_t, 0x7fff, 0x0400>(vector.data, vector.dim);
  }
  if (!special) return;
  std::size_t i = 0;
  while (std::isfinite(element_as_float(vector.type, vector.data, i))) ++i;
  const float value = element_as_float(vector.type, vector.data, i);
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
    if (type == ElementType::kBit && parsed.count % 8 != 0) {
      refuse(where, type, dim,
             "a JSON array of " + std::to_string(parsed.count) + " bits, not a multiple of 8");
    }
  } else if (parsed.count != dim) {
    refuse(where, type, dim, "a JSON array of " + std::to_string(parsed.count) + " numbers");
  }
  return own(type, static_cast<std::uint32_t>(parsed.count), std::move(parsed.bytes));
}

// dim float32 values for a FLOAT16 column.
VectorInput narrow_to_half(std::string_view blob, std::uint32_t dim, const Place& where) {
  std::vector<std::byte> bytes(std::size_t{dim} * 2);
  for (std::uint32_t i = 0; i < dim; ++i) {
    float wide;
    std::memcpy(&wide, blob.data() + std::size_t{i} * 4, 4);
    const std::uint16_t half = float_to_half(wide);
    if ((half & 0x7c00u) == 0x7c00u) {
      const std::string came = std::isnan(wide) ? "NaN" : std::to_string(wide);
      throw Error(ErrorKind::kInvalid,
                  where.text() + ": expected numbers in the range of float16 (below 65520), got " +
                      came + " as element [" + std::to_string(i) + "]");
    }
    std::memcpy(bytes.data() + std::size_t{i} * 2, &half, 2);
  }
  return own(ElementType::kFloat16, dim, std::move(bytes));
}

VectorInput from_blob(std::string_view blob, ElementType type, std::uint32_t dim,
                      unsigned subtype, const Place& where) {
  const bool other_type = subtype >= kSubtypeFloat32 && subtype <= kSubtypeFloat16 &&
                          subtype != subtype_of(type);
  const bool float_for_half = type == ElementType::kFloat16 && dim != kAnyDimension &&
                              blob.size() == std::size_t{dim} * 4;
  if (float_for_half && (!other_type || subtype == kSubtypeFloat32)) {
    return narrow_to_half(blob, dim, where);
  }
  if (other_type) {
    for (ElementType came : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kInt8,
                             ElementType::kBit}) {
      if (subtype_of(came) == subtype) {
        refuse(where, type, dim, "a vector of " + std::string(type_name(came)));
      }
    }
  }
  const std::size_t whole = element_bits(type);  // bytes of eight elements
  const std::size_t count = blob.size() * 8 / whole;
  const bool fits = dim == kAnyDimension
                        ? count > 0 && count <= UINT32_MAX && count * whole == blob.size() * 8
                        : blob.size() == bytes_per_vector(type, dim);
  if (!fits) refuse(where, type, dim, describe(Cell::blob(blob)));
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

unsigned subtype_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return kSubtypeFloat32;
    case ElementType::kFloat16: return kSubtypeFloat16;
    case ElementType::kInt8: return kSubtypeInt8;
    case ElementType::kBit: return kSubtypeBit;
  }
  return 0;
}

const char* type_name(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "float32";
    case ElementType::kFloat16: return "float16";
    case ElementType::kInt8: return "int8";
    case ElementType::kBit: return "bit";
  }
  return "?";
}

const char* declared_name(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "FLOAT";
    case ElementType::kFloat16: return "FLOAT16";
    case ElementType::kInt8: return "INT8";
    case ElementType::kBit: return "BIT";
  }
  return "?";
}

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
  ElementType type = ElementType::kFloat32;
  const unsigned subtype = sqlite3_value_subtype(value);
  if (sqlite3_value_type(value) == SQLITE_BLOB) {
    for (ElementType candidate : {ElementType::kFloat16, ElementType::kInt8, ElementType::kBit}) {
      if (subtype_of(candidate) == subtype) type = candidate;
    }
  }
  return decode(cell_of(value), type, kAnyDimension, subtype, where);
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
    floats[i] = element_as_float(vector.type, vector.data, i);
  }
  return floats;
}

void result_vector(sqlite3_context* context, ElementType type, const void* data,
                   std::size_t size) {
  sqlite3_result_blob64(context, data, size, SQLITE_TRANSIENT);
  sqlite3_result_subtype(context, subtype_of(type));
}

std::string vector_to_json(ElementType type, std::uint32_t dim, const std::byte* data) {
  std::string json = "[";
  char number[64];
  for (std::uint32_t i = 0; i < dim; ++i) {
    if (i > 0) json += ',';
    if (type == ElementType::kBit) {
      json += ((static_cast<unsigned>(data[i / 8]) >> (i % 8)) & 1) != 0 ? '1' : '0';
    } else if (type == ElementType::kInt8) {
      json += std::to_string(static_cast<int>(static_cast<std::int8_t>(data[i])));
    } else {
      // Six decimals, which is what users of sqlite-vec see.
      json += sqlite3_snprintf(sizeof number, number, "%f",
                               static_cast<double>(element_as_float(type, data, i)));
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
      return "the text '" + std::string(cell.bytes) + "'";
    case CellKind::kBlob:
      return "a BLOB of " + std::to_string(cell.bytes.size()) +
             (cell.bytes.size() == 1 ? " byte" : " bytes");
  }
  return "?";
}

}  // namespace warplite::sql

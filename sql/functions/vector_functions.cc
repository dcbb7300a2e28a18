#include "sql/functions/vector_functions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compute/reference.h"
#include "compute/sparse.h"
#include "core/distance.h"
#include "core/elements.h"
#include "core/error.h"
#include "sql/definition/sparse_values.h"
#include "sql/definition/values.h"
#include "sql/host/entry.h"

namespace warplite::sql {
namespace {

[[noreturn]] void refuse(const char* function, const std::string& message) {
  throw Error(ErrorKind::kInvalid, std::string(function) + ": " + message);
}

// "float32[4]".
std::string shape(const VectorInput& vector) {
  return std::string(type_name(vector.type)) + "[" + std::to_string(vector.dim) + "]";
}

bool is_numbers(ElementType type) { return !is_bits(type); }

// "float32, float16 or int8".
template <typename Chosen>
std::string types_listed(const Chosen& chosen) {
  return element_types_listed(chosen, &ElementInfo::name);
}

void result(sqlite3_context* context, const VectorInput& vector) {
  result_vector(context, vector.type, vector.data, vector.size);
}

// Floats as a vector of `type`, a real one. Refuses what became infinite.
void result_floats(sqlite3_context* context, const char* function, ElementType type,
                   const std::vector<float>& values) {
  std::vector<std::byte> bytes(bytes_per_vector(type, values.size()));
  with_numbers(type, [&]<ElementType kType>() {
    for (std::size_t i = 0; i < values.size(); ++i) {
      write_element<kType>(values[i], bytes.data(), i);
      if (std::isfinite(read_element<kType>(bytes.data(), i))) continue;
      refuse(function, "element [" + std::to_string(i) + "] of the result does not fit " +
                           type_name(type));
    }
  });
  result_vector(context, type, bytes.data(), bytes.size());
}

VectorInput sparse_argument(sqlite3_value* value, const char* function) {
  return sparse_value(value, kMostSparseDim, function);
}

// --- constructors and properties -------------------------------------------

template <ElementType kType>
void construct(sqlite3_context* context, sqlite3_value** arguments) {
  constexpr const char* name = property<&ElementInfo::maker>(kType);
  if constexpr (is_narrow_real(kType)) {
    constexpr unsigned kWide = property<&ElementInfo::subtype>(ElementType::kFloat32);
    if (sqlite3_value_subtype(arguments[0]) == kWide) {
      return result_floats(context, name, kType, floats_of(vector_argument(arguments[0], name)));
    }
  }
  result(context, vector_of_type(arguments[0], kType, name));
}

void construct_sparse(sqlite3_context* context, sqlite3_value** arguments) {
  result_sparse(context, sparse_argument(arguments[0], "vec_sparse").cell().bytes.data());
}

void construct_csr(sqlite3_context* context, sqlite3_value** arguments) {
  const std::string blob = csr_blob(cell_of(arguments[0]), cell_of(arguments[1]),
                                    cell_of(arguments[2]), "warp_csr");
  sqlite3_result_blob64(context, blob.data(), blob.size(), SQLITE_TRANSIENT);
}

// Of a sparse vector, how many entries it has.
void length(sqlite3_context* context, sqlite3_value** arguments) {
  if (is_sparse(arguments[0])) {
    return sqlite3_result_int64(context, sparse_argument(arguments[0], "vec_length").dim);
  }
  sqlite3_result_int64(context, vector_argument(arguments[0], "vec_length").dim);
}

void type(sqlite3_context* context, sqlite3_value** arguments) {
  if (is_sparse(arguments[0])) {
    sparse_argument(arguments[0], "vec_type");
    return sqlite3_result_text(context, "sparse", -1, SQLITE_STATIC);
  }
  const VectorInput vector = vector_argument(arguments[0], "vec_type");
  sqlite3_result_text(context, type_name(vector.type), -1, SQLITE_STATIC);
}

void to_json(sqlite3_context* context, sqlite3_value** arguments) {
  constexpr unsigned kSubtypeJson = 'J';
  std::string json;
  if (is_sparse(arguments[0])) {
    json = sparse_to_json(sparse_argument(arguments[0], "vec_to_json").cell().bytes.data());
  } else {
    const VectorInput vector = vector_argument(arguments[0], "vec_to_json");
    json = vector_to_json(vector.type, vector.dim, vector.data);
  }
  sqlite3_result_text64(context, json.data(), json.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  sqlite3_result_subtype(context, kSubtypeJson);
}

// --- two vectors -----------------------------------------------------------

// An argument of a function. A text is read once where it is a constant of the statement: JSON takes ten times as
// long to read as a distance to compute.
class Argument {
 public:
  Argument(sqlite3_context* context, sqlite3_value** arguments, int number, const char* function) {
    if (sqlite3_value_type(arguments[number]) == SQLITE_TEXT) {
      kept_ = static_cast<const VectorInput*>(sqlite3_get_auxdata(context, number));
      if (kept_ != nullptr) return;
      auto read = std::make_unique<VectorInput>(vector_argument(arguments[number], function));
      kept_ = keep_with_argument(context, number, std::move(read));
      if (kept_ != nullptr) return;
    }
    own_ = vector_argument(arguments[number], function);
  }
  const VectorInput& vector() const { return kept_ != nullptr ? *kept_ : own_; }

 private:
  const VectorInput* kept_ = nullptr;
  VectorInput own_;
};

struct Pair {
  Argument first, second;
  const VectorInput& x() const { return first.vector(); }
  const VectorInput& y() const { return second.vector(); }
};

Pair read_pair(sqlite3_context* context, sqlite3_value** arguments, const char* function) {
  Pair pair{{context, arguments, 0, function}, {context, arguments, 1, function}};
  if (pair.x().type != pair.y().type || pair.x().dim != pair.y().dim) {
    refuse(function, "expected two vectors of one type and dimension, got " + shape(pair.x()) +
                         " and " + shape(pair.y()));
  }
  return pair;
}

// If one of them can only be sparse, both are.
double sparse_distance(sqlite3_value** arguments, const char* function) {
  const VectorInput x = sparse_argument(arguments[0], function);
  const VectorInput y = sparse_argument(arguments[1], function);
  return compute::SparseQuery(x.cell().bytes.data()).distance(y.cell().bytes.data());
}

template <Distance kDistance>
void distance(sqlite3_context* context, sqlite3_value** arguments) {
  constexpr const char* name = info(kDistance).function;
  if constexpr (kDistance == Distance::kInnerProduct) {
    if (is_sparse(arguments[0]) || is_sparse(arguments[1])) {
      return sqlite3_result_double(context, sparse_distance(arguments, name));
    }
  }
  const Pair pair = read_pair(context, arguments, name);
  const ElementType type = pair.x().type;
  if (!applies(kDistance, type)) {
    refuse(name, "expected " +
                     types_listed([](ElementType of) { return applies(kDistance, of); }) +
                     " vectors, got " + type_name(type));
  }
  const double value = compute::canonical_distance(kDistance, type, pair.x().dim, pair.x().data,
                                                   pair.y().data);
  if constexpr (info(kDistance).norms) {
    const auto zero = [](const VectorInput& vector) {
      const std::vector<float> values = floats_of(vector);
      return std::all_of(values.begin(), values.end(), [](float v) { return v == 0; });
    };
    if (value == 1 && (zero(pair.x()) || zero(pair.y()))) return sqlite3_result_null(context);
  }
  if (kDistance == Distance::kL1 && type == ElementType::kInt8) {
    return sqlite3_result_int64(context, static_cast<sqlite3_int64>(value));
  }
  sqlite3_result_double(context, value);
}

// Element by element; INT8 wraps around, as bytes do.
template <typename Operation>
void combine(sqlite3_context* context, sqlite3_value** arguments, const char* function,
             Operation operation) {
  const Pair pair = read_pair(context, arguments, function);
  if (is_bits(pair.x().type)) {
    refuse(function, "expected " + types_listed(is_numbers) + " vectors, got bit");
  }
  if (pair.x().type == ElementType::kInt8) {
    std::vector<std::uint8_t> sums(pair.x().dim);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = static_cast<std::uint8_t>(operation(static_cast<int>(pair.x().data[i]),
                                                    static_cast<int>(pair.y().data[i])));
    }
    return result_vector(context, ElementType::kInt8, sums.data(), sums.size());
  }
  std::vector<float> x = floats_of(pair.x());
  const std::vector<float> y = floats_of(pair.y());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = operation(x[i], y[i]);
  result_floats(context, function, pair.x().type, x);
}

void add(sqlite3_context* context, sqlite3_value** arguments) {
  combine(context, arguments, "vec_add", [](auto a, auto b) { return a + b; });
}

void sub(sqlite3_context* context, sqlite3_value** arguments) {
  combine(context, arguments, "vec_sub", [](auto a, auto b) { return a - b; });
}

// --- one vector ------------------------------------------------------------

VectorInput float_argument(sqlite3_value* value, const char* function) {
  VectorInput vector = vector_argument(value, function);
  if (!is_real(vector.type)) {
    refuse(function, "expected a " + types_listed(is_real) + " vector, got " + shape(vector));
  }
  return vector;
}

// A zero vector has no direction: NULL.
void normalize(sqlite3_context* context, sqlite3_value** arguments) {
  const VectorInput vector = float_argument(arguments[0], "vec_normalize");
  std::vector<float> values = floats_of(vector);
  double square = 0;
  for (float value : values) square += static_cast<double>(value) * static_cast<double>(value);
  if (square == 0) return sqlite3_result_null(context);
  const double norm = std::sqrt(square);
  for (float& value : values) value = static_cast<float>(static_cast<double>(value) / norm);
  result_floats(context, "vec_normalize", vector.type, values);
}

void slice(sqlite3_context* context, sqlite3_value** arguments) {
  constexpr const char* kName = "vec_slice";
  const VectorInput vector = vector_argument(arguments[0], kName);
  const sqlite3_int64 start = sqlite3_value_int64(arguments[1]);
  const sqlite3_int64 end = sqlite3_value_int64(arguments[2]);
  if (start < 0 || start >= end || end > vector.dim) {
    refuse(kName, "expected 0 <= start < end <= " + std::to_string(vector.dim) + " for " +
                      shape(vector) + ", got start " + std::to_string(start) + " and end " +
                      std::to_string(end));
  }
  if (is_bits(vector.type) && (start % 8 != 0 || end % 8 != 0)) {
    refuse(kName, "expected start and end to be multiples of 8 for a bit vector, got " +
                      std::to_string(start) + " and " + std::to_string(end));
  }
  const std::size_t from = bytes_per_vector(vector.type, static_cast<std::size_t>(start));
  const std::size_t to = bytes_per_vector(vector.type, static_cast<std::size_t>(end));
  result_vector(context, vector.type, vector.data + from, to - from);
}

// −1 … 1 in 255 steps of 2/255, as float32, become −128 … 127; what is outside is clamped.
void quantize_int8(sqlite3_context* context, sqlite3_value** arguments) {
  constexpr const char* kName = "vec_quantize_int8";
  constexpr float kStep = 2.0f / 255.0f;
  const Cell mode = cell_of(arguments[1]);
  if (mode.kind != CellKind::kText || mode.bytes != "unit") {
    refuse(kName, "expected 'unit' as the second argument, got " + describe(mode));
  }
  const std::vector<float> values = floats_of(float_argument(arguments[0], kName));
  std::vector<std::int8_t> codes(values.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const double code = (static_cast<double>(values[i]) + 1.0) / static_cast<double>(kStep) - 128.0;
    codes[i] = static_cast<std::int8_t>(std::clamp(code, -128.0, 127.0));
  }
  result_vector(context, ElementType::kInt8, codes.data(), codes.size());
}

// One bit an element, set where it is positive, least significant bit first.
void quantize_binary(sqlite3_context* context, sqlite3_value** arguments) {
  constexpr const char* kName = "vec_quantize_binary";
  const VectorInput vector = vector_argument(arguments[0], kName);
  if (is_bits(vector.type) || vector.dim % 8 != 0) {
    refuse(kName,
           "expected a " + types_listed(is_numbers) +
               " vector whose dimension is a multiple of 8, got " + shape(vector));
  }
  const std::vector<float> values = floats_of(vector);
  std::vector<std::uint8_t> bits(vector.dim / 8);
  // Without a branch, which nobody could predict.
  for (std::size_t i = 0; i < bits.size(); ++i) {
    unsigned byte = 0;
    for (unsigned j = 0; j < 8; ++j) byte |= static_cast<unsigned>(values[8 * i + j] > 0) << j;
    bits[i] = static_cast<std::uint8_t>(byte);
  }
  result_vector(context, ElementType::kBit, bits.data(), bits.size());
}

// Makes one function for each row of the tables of element types and of distances.
template <std::size_t... kTypes>
constexpr auto makers(std::index_sequence<kTypes...>) {
  return std::array{ScalarFunction{kElementTypes[kTypes].maker, 1,
                                   construct<kElementTypes[kTypes].type>}...};
}
template <std::size_t... kRows>
constexpr auto distances(std::index_sequence<kRows...>) {
  return std::array{ScalarFunction{kDistances[kRows].function, 2,
                                   distance<kDistances[kRows].distance>}...};
}

constexpr auto kMakers = makers(std::make_index_sequence<std::size(kElementTypes)>());
constexpr auto kDistanceFunctions = distances(std::make_index_sequence<std::size(kDistances)>());
constexpr ScalarFunction kOthers[] = {
    {"vec_sparse", 1, construct_sparse},
    {"warp_csr", 3, construct_csr},
    {"vec_length", 1, length},
    {"vec_type", 1, type},
    {"vec_to_json", 1, to_json},
    {"vec_add", 2, add},
    {"vec_sub", 2, sub},
    {"vec_normalize", 1, normalize},
    {"vec_slice", 3, slice},
    {"vec_quantize_int8", 2, quantize_int8},
    {"vec_quantize_binary", 1, quantize_binary},
};

}  // namespace

const std::vector<ScalarFunction>& vector_functions() {
  static const std::vector<ScalarFunction> functions = [] {
    std::vector<ScalarFunction> all(std::begin(kMakers), std::end(kMakers));
    all.insert(all.end(), std::begin(kDistanceFunctions), std::end(kDistanceFunctions));
    all.insert(all.end(), std::begin(kOthers), std::end(kOthers));
    return all;
  }();
  return functions;
}

}  // namespace warplite::sql

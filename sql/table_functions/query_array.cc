#include "sql/table_functions/query_array.h"

#include <atomic>
#include <string>
#include <string_view>

#include "compute/host/parallel.h"
#include "core/elements.h"
#include "core/process/interruption.h"
#include "sql/definition/sparse_values.h"
#include "sql/host/json.h"

namespace warplite::sql {
namespace {

// "float32 or float16".
std::string accepted_types(ElementType element) {
  return (is_narrow_real(element) ? "float32 or " : "") + std::string(type_name(element));
}

// "a BLOB of FLOAT16[4] vectors for t.e, each of 8 bytes (float16)".
std::string expectation(const SearchTarget& target, ElementType type) {
  const ColumnDefinition& column = *target.column;
  return "a BLOB of " + std::string(declared_name(column.element)) + "[" +
         std::to_string(column.dim) + "] vectors for " + target.place().text() + ", each of " +
         std::to_string(bytes_per_vector(type, column.dim)) + " bytes (" + type_name(type) + ")";
}

bool all_finite_of_many(ElementType type, std::string_view values) {
  constexpr std::size_t kBytesPerThread = std::size_t{1} << 18;
  std::atomic<bool> all{true};
  compute::in_parallel(values.size(), kBytesPerThread, values.size() / kBytesPerThread,
                       [&](std::size_t first, std::size_t last) {
                         const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
                         if (!all_finite(type, {bytes + first, last - first})) all = false;
                       });
  return all;
}

// How one query of many is to be read. What it refuses names the query.
VectorInput read_query(const Call& call, int parameter, const SearchTarget& target,
                       const Cell& query, std::size_t number) {
  try {
    return vector_from_cell(query, target.column->element, target.column->dim,
                            target.place());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) throw;
    throw Error(ErrorKind::kInvalid, std::string(call.function()) + ": " +
                                         call.parameter(parameter) + ": query [" +
                                         std::to_string(number) + "]: " + error.what());
  }
}

}  // namespace

QueryArray read_query_array(const Call& call, int parameter, const SearchTarget& target,
                            std::optional<ElementType> type) {
  sqlite3_value* const value = call.value(parameter);
  if (target.column->kind == ColumnKind::kSparse) {
    const std::string place = target.place().text();
    QueryArray sparse;
    sparse.count = csr_rows(cell_of(value), target.column->dim,
                            Place(std::string(call.function()) + ": " + place), sparse.owned);
    sparse.vectors = sparse.owned.data();
    return sparse;
  }
  const ElementType element = target.column->element;
  if (!type) type = marked_type(value).value_or(element);
  if (*type != element && !(*type == ElementType::kFloat32 && is_narrow_real(element))) {
    call.refuse(parameter,
                expectation(target, element) + "; types it takes: " + accepted_types(element),
                "whose type is said to be " + std::string(type_name(*type)));
  }
  const std::size_t width = bytes_per_vector(*type, target.column->dim);
  const Cell cell = cell_of(value);
  if (cell.kind != CellKind::kBlob || cell.bytes.size() % width != 0) {
    call.refuse(parameter, expectation(target, *type));
  }
  QueryArray queries;
  queries.count = cell.bytes.size() / width;
  queries.vectors = reinterpret_cast<const std::byte*>(cell.bytes.data());
  // All at once; one by one it is said which is to blame.
  if (*type == element && all_finite_of_many(element, cell.bytes)) return queries;
  for (std::size_t i = 0; i < queries.count; ++i) {
    if (i % 1024 == 0) poll_interruption();
    const VectorInput query =
        read_query(call, parameter, target, Cell::blob(cell.bytes.substr(i * width, width)), i);
    queries.owned.insert(queries.owned.end(), query.owned.begin(), query.owned.end());
  }
  if (*type != element) queries.vectors = queries.owned.data();
  return queries;
}

QueryArray read_query_list(const Call& call, int parameter, const SearchTarget& target,
                           std::optional<ElementType> type) {
  const Cell cell = cell_of(call.value(parameter));
  if (cell.kind != CellKind::kText) return read_query_array(call, parameter, target, type);
  constexpr char kExpected[] = "a JSON array of arrays of numbers, or a BLOB of vectors";
  Json json;
  try {
    json = Json::parse(cell.bytes);
  } catch (const JsonError& error) {
    call.refuse(parameter, kExpected, error.what());
  }
  if (!json.is_list()) call.refuse(parameter, kExpected);
  QueryArray queries;
  for (const Json& member : json.list()) {
    poll_interruption();
    if (!member.is_list()) call.refuse(parameter, kExpected);
    const VectorInput query =
        read_query(call, parameter, target, Cell::text(member.source()), queries.count++);
    queries.owned.insert(queries.owned.end(), query.data, query.data + query.size);
  }
  queries.vectors = queries.owned.data();
  return queries;
}

}  // namespace warplite::sql

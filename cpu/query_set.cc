#include "cpu/query_set.h"

#include <cstring>

#include "core/half.h"

namespace warplite::cpu {
namespace {

template <class T>
T read(const std::byte* vector, std::size_t i) {
  T value;
  std::memcpy(&value, vector + i * sizeof value, sizeof value);
  return value;
}

bool real(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat16;
}

// The canonical sum of squares: the inner product with itself, its sign undone.
double squared_norm(const PreparedQuery& query, const std::byte* vector, ScoreRows inner_product) {
  const std::uint32_t row = 0;
  double score = 0;
  inner_product(query, vector, &row, 1, &score);
  return score == 0 ? 0 : -score;
}

}  // namespace

double element_at(ElementType type, const std::byte* vector, std::size_t i) {
  if (type == ElementType::kFloat32) return static_cast<double>(read<float>(vector, i));
  if (type == ElementType::kFloat16) {
    return static_cast<double>(half_to_float(read<std::uint16_t>(vector, i)));
  }
  return read<std::int8_t>(vector, i);
}

QuerySet::QuerySet(const compute::Workload& work, const Kernels& kernels)
    : prepared_(work.queries.rows) {
  const MatrixView& queries = work.queries;
  const std::size_t padded = (std::size_t{queries.dim} + 15) / 16 * 16;
  if (real(queries.type)) reals_ = Bytes(queries.rows * padded * sizeof(double));
  for (std::size_t q = 0; q < queries.rows; ++q) {
    PreparedQuery& query = prepared_[q];
    query.dim = queries.dim;
    query.stride = queries.stride();
    query.bytes = queries.row(q);
    if (real(queries.type)) {
      double* reals = reinterpret_cast<double*>(reals_.data()) + q * padded;
      for (std::size_t i = 0; i < padded; ++i) {
        reals[i] = i < queries.dim ? element_at(queries.type, query.bytes, i) : 0.0;
      }
      query.reals = reals;
    }
    if (work.distance == Distance::kCosine) {
      query.norm = squared_norm(query, query.bytes,
                                kernels.score(queries.type, Distance::kInnerProduct));
    }
  }
}

}  // namespace warplite::cpu

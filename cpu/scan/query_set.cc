#include "cpu/scan/query_set.h"

#include <algorithm>

#include "core/elements.h"

namespace warplite::cpu {
namespace {

// The canonical sum of squares: the inner product with itself, its sign undone.
double squared_norm(const PreparedQuery& query, const std::byte* vector, ScoreRows inner_product) {
  const std::uint32_t row = 0;
  double score = 0;
  inner_product(query, vector, &row, 1, &score);
  return score == 0 ? 0 : -score;
}

}  // namespace

QuerySet::QuerySet(const compute::Workload& work, const ScanKernels& kernels)
    : prepared_(work.queries.rows) {
  const MatrixView& queries = work.queries;
  for (std::size_t q = 0; q < queries.rows; ++q) {
    prepared_[q].dim = queries.dim;
    prepared_[q].stride = queries.stride();
    prepared_[q].bytes = queries.row(q);
  }
  switch (property<&ElementInfo::numbers>(queries.type)) {
    case Numbers::kReal: convert_reals(queries); break;
    case Numbers::kInteger: convert_shorts(queries); break;
    case Numbers::kBits: break;
  }
  if (!info(work.distance).norms) return;
  const ScoreRows inner_product = kernels.score(queries.type, Distance::kInnerProduct);
  for (PreparedQuery& query : prepared_) {
    query.norm = squared_norm(query, query.bytes, inner_product);
  }
}

void QuerySet::convert_reals(const MatrixView& queries) {
  const std::size_t padded = (std::size_t{queries.dim} + 15) / 16 * 16;
  reals_ = Bytes(queries.rows * padded * sizeof(double), Bytes::Fill::kBrief);
  for (std::size_t q = 0; q < queries.rows; ++q) {
    double* reals = reinterpret_cast<double*>(reals_.data()) + q * padded;
    with_numbers(queries.type, [&]<ElementType kType>() {
      const std::byte* const row = queries.row(q);
      for (std::size_t i = 0; i < queries.dim; ++i) reals[i] = read_element<kType>(row, i);
    });
    std::fill(reals + queries.dim, reals + padded, 0.0);
    prepared_[q].reals = reals;
  }
}

void QuerySet::convert_shorts(const MatrixView& queries) {
  const std::size_t padded = (std::size_t{queries.dim} + 63) / 64 * 64;
  shorts_ = Bytes(queries.rows * padded * sizeof(std::int16_t), Bytes::Fill::kBrief);
  for (std::size_t q = 0; q < queries.rows; ++q) {
    auto* shorts = reinterpret_cast<std::int16_t*>(shorts_.data()) + q * padded;
    for (std::size_t i = 0; i < padded; ++i) {
      const float value = i < queries.dim ? element_at(queries.type, queries.row(q), i) : 0.0f;
      shorts[i] = static_cast<std::int16_t>(value);
    }
    prepared_[q].shorts = shorts;
  }
}

}  // namespace warplite::cpu

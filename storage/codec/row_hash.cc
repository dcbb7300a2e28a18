#include "storage/codec/row_hash.h"

#include <span>

#include "storage/codec/checksum.h"

namespace warplite::storage {
namespace {

// Persisted: values never change.
std::uint64_t kind_of(const Cell& cell) {
  switch (cell.kind) {
    case CellKind::kNull: return 0;
    case CellKind::kInteger: return 1;
    case CellKind::kReal: return 2;
    case CellKind::kText: return 3;
    case CellKind::kBlob: return 4;
  }
  return 0;
}

}  // namespace

std::uint64_t add_cell(std::uint64_t sum, const Cell& cell) {
  std::span<const std::byte> bytes = std::as_bytes(std::span(cell.bytes));
  if (cell.kind == CellKind::kInteger) bytes = std::as_bytes(std::span(&cell.integer, 1));
  if (cell.kind == CellKind::kReal) bytes = std::as_bytes(std::span(&cell.real, 1));
  return checksum(bytes, sum + kind_of(cell));
}

Cell vector_cell(const Chunk& chunk, std::uint32_t row, std::size_t column) {
  if (!chunk.has_vector(column, row)) return Cell::null();
  const auto* bytes = reinterpret_cast<const char*>(chunk.vectors(column).row(row));
  return Cell::blob({bytes, chunk.layout().vectors[column].stride()});
}

std::uint64_t row_hash(const Layout& layout, const RowRef& row) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < layout.vectors.size(); ++i) {
    sum = add_cell(sum, vector_cell(*row.chunk, row.row, i));
  }
  for (std::size_t i = 0; i < layout.plains.size(); ++i) {
    sum = add_cell(sum, row.chunk->plain(i).cell(row.row));
  }
  return sum;
}

std::uint64_t row_hash(const Layout& layout, const Cell* vectors, const Cell* plains) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < layout.vectors.size(); ++i) sum = add_cell(sum, vectors[i]);
  for (std::size_t i = 0; i < layout.plains.size(); ++i) sum = add_cell(sum, plains[i]);
  return sum;
}

}  // namespace warplite::storage

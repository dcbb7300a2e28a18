#include "engine/table/rows.h"

#include <cstring>

namespace warplite::engine {

RowCopier::RowCopier(const Layout& layout, bool with_aux)
    : with_aux_(with_aux),
      vectors_(layout.vectors.size()),
      plains_(layout.plains.size()),
      aux_(layout.aux) {}

void RowCopier::copy(const Chunk& from, std::uint32_t row, Chunk& to) {
  for (std::size_t i = 0; i < vectors_.size(); ++i) {
    vectors_[i] = Cell::null();
    if (!from.has_vector(i, row)) continue;
    const MatrixView all = from.vectors(i);
    vectors_[i] = Cell::blob({reinterpret_cast<const char*>(all.row(row)), all.stride()});
  }
  for (std::size_t i = 0; i < plains_.size(); ++i) plains_[i] = from.plain(i).cell(row);
  for (std::size_t i = 0; i < aux_.size() && with_aux_; ++i) aux_[i] = from.aux(row, i).cell();
  to.append({from.rowids()[row], vectors_.data(), plains_.data(), aux_.data()});
}

std::size_t text_bytes(const Column& column, std::uint32_t row) {
  return holds_texts(column.type()) ? column.text(row).size() : 0;
}

std::size_t text_bytes(const Chunk& chunk, std::uint32_t row) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < chunk.layout().plains.size(); ++i) {
    bytes += text_bytes(chunk.plain(i), row);
  }
  return bytes;
}

void copy_rows(const MatrixView& from, std::span<const std::uint32_t> rows, std::byte* out) {
  const std::size_t stride = from.stride();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(out + i * stride, from.row(rows[i]), stride);
  }
}

Bitmap some_bits(const Bitmap& from, std::span<const std::uint32_t> rows) {
  if (from.size() == 0) return {};
  Bitmap bits(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (from.test(rows[i])) bits.set(i);
  }
  return bits;
}

std::optional<std::uint32_t> find_row(const Chunk& chunk, std::uint32_t rows, RowId rowid) {
  const std::optional<std::uint32_t> found = chunk.find(rowid);
  if (!found || *found < rows) return found;
  // A later row of the chunk has this rowid too; ours may be an earlier one.
  for (std::uint32_t row = rows; row-- > 0;) {
    if (chunk.rowids()[row] == rowid) return row;
  }
  return std::nullopt;
}

}  // namespace warplite::engine

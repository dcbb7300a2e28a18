// Moving rows between chunks and finding them there; copying vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/bitmap.h"
#include "core/chunk.h"
#include "core/types.h"

namespace warplite::engine {

// Appends rows of one chunk to another of the same layout.
class RowCopier {
 public:
  // If `with_aux` is false, the +columns of the copies are NULL (for rows whose +columns are in
  // NAME_aux).
  explicit RowCopier(const Layout& layout, bool with_aux = true);
  // REQUIRES: row < from.size(); !to.full()
  void copy(const Chunk& from, std::uint32_t row, Chunk& to);

 private:
  bool with_aux_;
  std::vector<Cell> vectors_;
  std::vector<Cell> plains_;
  std::vector<Cell> aux_;
};

inline bool holds_texts(PlainType type) {
  return type == PlainType::kText || type == PlainType::kSparse;
}
// Bytes of the text or sparse vector that a row has there; 0 where the type is another.
std::size_t text_bytes(const Column& column, std::uint32_t row);
// Bytes of those that a row of a chunk has.
std::size_t text_bytes(const Chunk& chunk, std::uint32_t row);

// Copies vectors, one after another.
void copy_rows(const MatrixView& from, std::span<const std::uint32_t> rows, std::byte* out);
// The bits of some rows, one after another; of an empty bitmap, an empty one.
Bitmap some_bits(const Bitmap& from, std::span<const std::uint32_t> rows);

// The last of the first `rows` rows of a chunk that has this rowid.
std::optional<std::uint32_t> find_row(const Chunk& chunk, std::uint32_t rows, RowId rowid);

}  // namespace warplite::engine

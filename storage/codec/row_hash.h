// The hash of a row's indexed values, by which a table with content= knows a row's values again:
// 64 bits, of the values as they would be stored (vectors in the column's type, plain values after
// conversion), column by column. docs/file_format.md defines it; it is persisted and never changes.
// Threads: functions of their arguments.
#pragma once

#include <cstdint>

#include "core/chunk.h"
#include "storage/codec/records.h"

namespace warplite::storage {

// A running sum of cells, their kinds included.
std::uint64_t add_cell(std::uint64_t sum, const Cell& cell);

// A row's vector as a cell.
Cell vector_cell(const Chunk& chunk, std::uint32_t row, std::size_t column);

std::uint64_t row_hash(const Layout& layout, const RowRef& row);
// The same for cells as Chunk::append() takes them.
std::uint64_t row_hash(const Layout& layout, const Cell* vectors, const Cell* plains);

}  // namespace warplite::storage

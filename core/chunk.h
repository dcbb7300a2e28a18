// Rows by column, on their way in: the pending rows of a transaction, the tail
// as read from its table, and what a segment is sealed from. Fixed capacity, so
// that rows never move and readers may hold a chunk while rows are appended.
// Threads: one writer; readers use only rows that existed when they began.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/bitmap.h"
#include "core/bytes.h"
#include "core/column.h"
#include "core/types.h"
#include "core/value.h"

namespace warplite {

// The columns of a table as rows are stored, in table order within each kind.
struct Layout {
  struct Vector {
    ElementType type;
    std::uint32_t dim;
    std::size_t stride() const { return bytes_per_vector(type, dim); }
  };
  std::vector<Vector> vectors;
  // Stored by value: filterable columns, with partition keys and a text primary key, and sparse
  // vectors.
  std::vector<PlainType> plains;
  // See sparse_dim(). Shorter than `plains`: the others are no sparse vectors.
  std::vector<std::uint32_t> sparse_dims;
  std::size_t aux = 0;            // +columns, kept in a row table of their own
  int text_key = -1;              // index into plains of the TEXT PRIMARY KEY, or -1
  std::vector<int> partitions;    // indexes into plains of the PARTITION KEY columns
  std::uint32_t segment_rows = 0; // capacity of a sealed segment
  // store=codes: a segment keeps no vectors of columns that have a model, only their codes.
  bool codes_only = false;
  // content=: vectors and values stay in a table that an application owns. Of each row no more than
  // a hash of them is stored, by which they are known when they are read from there.
  bool content = false;
  // index=match: plain columns whose match counts are counted by codes from the first search on.
  // Shorter than `plains`: the others are not.
  std::vector<bool> match;

  std::size_t row_bytes() const;  // of all vectors
  // SPARSE[n]: n; 0: another type.
  std::uint32_t sparse_dim(std::size_t plain) const {
    return plain < sparse_dims.size() ? sparse_dims[plain] : 0;
  }
};

// Rows per segment so that its vectors take about 4 MB: a power of two from 1,024 to 65,536. Eight
// times as many where codes are what is kept; no more than 16,384 where there are sparse vectors, of
// which a value of the host's must hold a segment's.
std::uint32_t default_segment_rows(const Layout& layout);

// A row to be stored; everything is borrowed from the caller.
struct RowView {
  RowId rowid = 0;
  const Cell* vectors = nullptr;  // per Layout::vectors: NULL, or a blob of exactly stride() bytes
  const Cell* plains = nullptr;   // per Layout::plains: NULL or a cell of the column's type
  const Cell* aux = nullptr;      // per aux column: anything
};

class Chunk {
 public:
  // `header` bytes are left free in front of each vector column's memory, for a
  // block header, so that a full chunk is written without being copied.
  Chunk(const Layout& layout, std::uint32_t capacity, std::size_t header = 0);

  std::uint32_t size() const { return size_; }
  std::uint32_t capacity() const { return capacity_; }
  bool full() const { return size_ == capacity_; }

  // REQUIRES: !full()
  void append(const RowView& row);
  // Drops rows from the end. REQUIRES: no reader holds the dropped rows.
  void truncate(std::uint32_t size);

  const RowId* rowids() const { return rowids_.get(); }
  bool ascending() const { return ascending_; }
  // The last row with this rowid, if any.
  std::optional<std::uint32_t> find(RowId rowid) const;

  const Layout& layout() const { return *layout_; }
  // size() vectors; those of rows without a vector are zero bytes.
  MatrixView vectors(std::size_t column) const;
  // Header space followed by the vectors.
  std::byte* vector_memory(std::size_t column) { return vectors_[column].memory.data(); }
  bool has_vector(std::size_t column, std::uint32_t row) const {
    return vectors_[column].missing == 0 || !vectors_[column].absent.test(row);
  }
  std::uint32_t missing_vectors(std::size_t column) const { return vectors_[column].missing; }
  const Column& plain(std::size_t column) const { return plains_[column]; }
  const Value& aux(std::uint32_t row, std::size_t column) const {
    return aux_[row * layout_->aux + column];
  }
  std::size_t memory() const;
  // The part of it that rows, present or dropped, were ever written to.
  std::size_t touched_memory() const;

 private:
  struct VectorColumn {
    Bytes memory;
    std::size_t stride;
    std::uint32_t missing = 0;
    Bitmap absent;  // capacity bits
  };
  const Layout* layout_;  // outlives the chunk (the collection owns both)
  std::uint32_t capacity_;
  std::size_t header_;
  std::uint32_t size_ = 0;
  std::uint32_t dropped_size_ = 0;  // the largest that truncate() found
  bool ascending_ = true;
  std::unique_ptr<RowId[]> rowids_;
  std::vector<VectorColumn> vectors_;
  std::vector<Column> plains_;
  std::vector<Value> aux_;
  mutable std::unordered_map<RowId, std::uint32_t> index_;  // built once rows are out of order
};

}  // namespace warplite

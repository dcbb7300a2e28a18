#include "core/chunk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace warplite {

std::size_t Layout::row_bytes() const {
  std::size_t bytes = 0;
  for (const Vector& vector : vectors) bytes += vector.stride();
  return bytes;
}

std::uint32_t default_segment_rows(const Layout& layout) {
  const std::size_t target = std::size_t{layout.codes_only ? 32u : 4u} << 20;
  std::uint32_t rows = 1024;
  const bool sparse = std::any_of(layout.sparse_dims.begin(), layout.sparse_dims.end(),
                                  [](std::uint32_t dim) { return dim != 0; });
  const std::uint32_t most = sparse ? 16384 : 65536;
  while (rows < most && rows * 2 * layout.row_bytes() <= target) rows *= 2;
  return rows;
}

Chunk::Chunk(const Layout& layout, std::uint32_t capacity, std::size_t header)
    : layout_(&layout), capacity_(capacity), header_(header), rowids_(new RowId[capacity]) {
  for (const Layout::Vector& vector : layout.vectors) {
    VectorColumn& column = vectors_.emplace_back();
    column.stride = vector.stride();
    column.memory = Bytes(header + column.stride * capacity, Bytes::Fill::kGradual);
    column.absent = Bitmap(capacity);
  }
  for (PlainType type : layout.plains) {
    plains_.emplace_back(type).reserve(capacity);
  }
}

void Chunk::append(const RowView& row) {
  WARP_DCHECK(!full());
  try {
    for (std::size_t i = 0; i < plains_.size(); ++i) plains_[i].append(row.plains[i]);
    for (std::size_t i = 0; i < layout_->aux; ++i) aux_.emplace_back(row.aux[i]);
    if (!index_.empty()) index_[row.rowid] = size_;
  } catch (...) {
    for (Column& column : plains_) column.truncate(size_);
    aux_.resize(size_ * layout_->aux);
    throw;
  }
  for (std::size_t i = 0; i < vectors_.size(); ++i) {
    VectorColumn& column = vectors_[i];
    std::byte* to = column.memory.data() + header_ + size_ * column.stride;
    if (row.vectors[i].is_null()) {
      std::memset(to, 0, column.stride);
      column.absent.set(size_);
      ++column.missing;
    } else {
      std::memcpy(to, row.vectors[i].bytes.data(), column.stride);
    }
  }
  rowids_[size_] = row.rowid;
  if (size_ > 0 && row.rowid <= rowids_[size_ - 1]) ascending_ = false;
  ++size_;
}

void Chunk::truncate(std::uint32_t size) {
  if (size >= size_) return;
  dropped_size_ = std::max(dropped_size_, size_);
  for (VectorColumn& column : vectors_) {
    for (std::uint32_t row = size; column.missing > 0 && row < size_; ++row) {
      if (!column.absent.test(row)) continue;
      column.absent.reset(row);
      --column.missing;
    }
  }
  for (Column& column : plains_) column.truncate(size);
  aux_.resize(size * layout_->aux);
  size_ = size;
  ascending_ = std::is_sorted(rowids_.get(), rowids_.get() + size_, std::less_equal<RowId>());
  index_.clear();
}

std::optional<std::uint32_t> Chunk::find(RowId rowid) const {
  const RowId* begin = rowids_.get();
  if (ascending_) {
    const RowId* at = std::lower_bound(begin, begin + size_, rowid);
    if (at == begin + size_ || *at != rowid) return std::nullopt;
    return static_cast<std::uint32_t>(at - begin);
  }
  if (index_.empty()) {
    auto index = index_;
    for (std::uint32_t row = 0; row < size_; ++row) index[begin[row]] = row;
    index_ = std::move(index);
  }
  const auto found = index_.find(rowid);
  if (found == index_.end() || found->second >= size_) return std::nullopt;
  return found->second;
}

MatrixView Chunk::vectors(std::size_t column) const {
  const Layout::Vector& shape = layout_->vectors[column];
  return {vectors_[column].memory.data() + header_, size_, shape.dim, shape.type};
}

std::size_t Chunk::memory() const {
  std::size_t bytes = sizeof(*this) + capacity_ * sizeof(RowId);
  for (const VectorColumn& column : vectors_) bytes += column.memory.size();
  for (const Column& column : plains_) bytes += column.memory();
  return bytes + aux_.size() * sizeof(Value);
}

std::size_t Chunk::touched_memory() const {
  const std::size_t rows = std::max(dropped_size_, size_);
  std::size_t bytes = rows * (sizeof(RowId) + layout_->row_bytes() + 8 * plains_.size());
  for (const Column& column : plains_) bytes += column.text_bytes().capacity();
  return bytes + aux_.capacity() * sizeof(Value);
}

}  // namespace warplite

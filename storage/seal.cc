// Rows become a segment: its blocks are written column by column, without a copy
// when the rows are a whole chunk in ascending order.
#include <algorithm>
#include <cstring>
#include <string>

#include "storage/codec/column_codec.h"
#include "storage/codec/row_hash.h"
#include "storage/codec/wire.h"
#include "storage/store_impl.h"

namespace warplite::storage {
namespace {

bool before(const RowRef& a, const RowRef& b) {
  return a.chunk->rowids()[a.row] < b.chunk->rowids()[b.row];
}

// Rows in ascending order, and the chunk of which they are all rows, if there is one.
class Selection {
 public:
  explicit Selection(std::span<const RowRef> rows) : rows_(rows) {
    if (!std::is_sorted(rows.begin(), rows.end(), before)) {
      sorted_.assign(rows.begin(), rows.end());
      std::sort(sorted_.begin(), sorted_.end(), before);
      rows_ = sorted_;
    }
    for (std::size_t i = 1; i < rows_.size(); ++i) {
      if (!before(rows_[i - 1], rows_[i])) {
        corrupt("row " + std::to_string(rowid(i)) + " is alive twice");
      }
    }
    const Chunk* chunk = rows_.front().chunk;
    bool whole = chunk->size() == rows_.size();
    for (std::size_t i = 0; whole && i < rows_.size(); ++i) {
      whole = rows_[i].chunk == chunk && rows_[i].row == i;
    }
    if (whole) whole_ = chunk;
  }

  std::span<const RowRef> rows() const { return rows_; }
  const Chunk* whole() const { return whole_; }
  RowId rowid(std::size_t i) const { return rows_[i].chunk->rowids()[rows_[i].row]; }

 private:
  std::span<const RowRef> rows_;
  std::vector<RowRef> sorted_;
  const Chunk* whole_ = nullptr;
};

std::size_t missing_vectors(std::span<const RowRef> rows, std::size_t column) {
  return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [&](const RowRef& ref) {
    return !ref.chunk->has_vector(column, ref.row);
  }));
}

void copy_vectors(std::span<const RowRef> rows, std::size_t column, std::size_t stride,
                  std::byte* to) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(to + i * stride, rows[i].chunk->vectors(column).row(rows[i].row), stride);
  }
}

Bitmap present_vectors(std::span<const RowRef> rows, std::size_t column) {
  Bitmap present(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].chunk->has_vector(column, rows[i].row)) present.set(i);
  }
  return present;
}

// A block with room for its header, then the vectors, then which are present if some are not.
Bytes make_block(std::span<const RowRef> rows, std::size_t column, std::size_t stride,
                 bool with_presence) {
  const std::size_t vectors = rows.size() * stride;
  Bytes block(kBlockHeader + vectors + (with_presence ? bitmap_bytes(rows.size()) : 0));
  std::byte* to = block.data() + kBlockHeader;
  copy_vectors(rows, column, stride, to);
  if (!with_presence) return block;
  std::memcpy(to + vectors, present_vectors(rows, column).words(), bitmap_bytes(rows.size()));
  return block;
}

// The chunk's own memory as a block, or nothing when it left no room for the header.
std::span<std::byte> in_place(const Chunk& chunk, std::size_t column) {
  // Only the header space is written, which a chunk leaves free for this and no reader looks at.
  std::byte* memory = const_cast<Chunk&>(chunk).vector_memory(column);
  const MatrixView vectors = chunk.vectors(column);
  if (vectors.data != memory + kBlockHeader) return {};
  return {memory, kBlockHeader + vectors.rows * vectors.stride()};
}

Column gather_plain(std::span<const RowRef> rows, std::size_t column, PlainType type) {
  Column gathered(type);
  gathered.reserve(rows.size());
  for (const RowRef& ref : rows) gathered.append(ref.chunk->plain(column).cell(ref.row));
  return gathered;
}

class Sealer {
 public:
  Sealer(Store::Impl& store, std::int64_t id, std::span<const RowRef> rows)
      : store_(store), selection_(rows) {
    info_.id = id;
    info_.rows = info_.live_rows = static_cast<std::uint32_t>(rows.size());
    info_.min_rowid = selection_.rowid(0);
    info_.max_rowid = selection_.rowid(rows.size() - 1);
    info_.vectors.resize(store.layout.vectors.size());
    info_.plains.resize(store.layout.plains.size());
    info_.zones.resize(store.layout.plains.size());
  }

  // `without`: stamps of models; columns that have one are left out.
  SegmentInfo seal(std::span<const Stamp> without) {
    write_rowids();
    if (store_.layout.content) write_hashes();
    for (std::size_t i = 0; i < info_.vectors.size(); ++i) {
      if (i >= without.size() || without[i].is_null()) write_vectors(i);
    }
    for (std::size_t i = 0; i < info_.plains.size(); ++i) write_plain(i);
    return std::move(info_);
  }

 private:
  void write_rowids() {
    const std::uint64_t spread = static_cast<std::uint64_t>(info_.max_rowid) -
                                 static_cast<std::uint64_t>(info_.min_rowid);
    if (spread == info_.rows - 1) return;
    info_.rowids = new_stamp();
    Bytes block(kBlockHeader + info_.rows * sizeof(RowId));
    for (std::size_t i = 0; i < info_.rows; ++i) {
      const RowId rowid = selection_.rowid(i);
      std::memcpy(block.data() + kBlockHeader + i * sizeof rowid, &rowid, sizeof rowid);
    }
    store_.write_block(store_.rowids_header(info_), {block.data(), block.size()});
  }

  void write_hashes() {
    info_.hashes = new_stamp();
    Bytes block(kBlockHeader + info_.rows * sizeof(std::uint64_t));
    for (std::size_t i = 0; i < info_.rows; ++i) {
      const std::uint64_t hash = row_hash(store_.layout, selection_.rows()[i]);
      std::memcpy(block.data() + kBlockHeader + i * sizeof hash, &hash, sizeof hash);
    }
    store_.write_block(store_.hashes_header(info_), {block.data(), block.size()});
  }

  void write_vectors(std::size_t column) {
    const auto rows = selection_.rows();
    const std::size_t missing = missing_vectors(rows, column);
    if (missing == rows.size()) return;
    info_.vectors[column] = new_stamp();
    if (store_.layout.content) return;
    BlockHeader header = store_.vectors_header(info_, column);
    if (missing > 0) header.flags = kHasPresence;
    std::span<std::byte> block;
    const Chunk* whole = missing == 0 ? selection_.whole() : nullptr;
    if (whole != nullptr) block = in_place(*whole, column);
    Bytes gathered;
    if (block.empty()) {
      gathered = make_block(rows, column, store_.layout.vectors[column].stride(), missing > 0);
      block = {gathered.data(), gathered.size()};
    }
    store_.write_block(header, block);
  }

  void write_plain(std::size_t column) {
    Column gathered(store_.layout.plains[column]);
    const Chunk* whole = selection_.whole();
    if (whole == nullptr) gathered = gather_plain(selection_.rows(), column, gathered.type());
    const Column& values = whole != nullptr ? whole->plain(column) : gathered;
    info_.zones[column] = make_zone(values);
    if (info_.zones[column].all_null) return;
    info_.plains[column] = new_stamp();
    if (store_.layout.content) return;
    std::string block(kBlockHeader, '\0');
    encode_column(values, block);
    store_.write_block(store_.plain_header(info_, column),
                       std::as_writable_bytes(std::span(block)));
  }

  Store::Impl& store_;
  Selection selection_;
  SegmentInfo info_;
};

}  // namespace

SegmentInfo Store::seal(State& state, std::span<const RowRef> rows) {
  SegmentInfo info = seal_blocks(state, rows, Codes::kFollow);
  write_entry(info);
  return info;
}

void Store::write_entry(const SegmentInfo& segment) {
  const KeepLastInsertRowid keep(impl_->db);
  impl_->write_segment(segment);
}

SegmentInfo Store::seal_blocks(State& state, std::span<const RowRef> rows, Codes codes) {
  WARP_CHECK(!rows.empty() && rows.size() <= impl_->layout.segment_rows);
  if (state.next_segment > kMaxSegment) {
    throw Error(ErrorKind::kLimit, impl_->table + ": no segment numbers are left");
  }
  const KeepLastInsertRowid keep(impl_->db);
  std::span<const Stamp> without;
  if (impl_->layout.codes_only && codes == Codes::kFollow) without = state.models;
  SegmentInfo info =
      impl_->at([&] { return "segment " + std::to_string(state.next_segment); },
                [&] { return Sealer(*impl_, state.next_segment, rows).seal(without); });
  ++state.next_segment;
  return info;
}

VectorBlock gather_vectors(const Layout& layout, std::span<const RowRef> rows,
                           std::size_t column) {
  const Selection selection(rows);
  const Layout::Vector& shape = layout.vectors[column];
  VectorBlock block;
  if (selection.whole() != nullptr) {
    block.vectors = selection.whole()->vectors(column);
  } else {
    block.memory = Bytes(rows.size() * shape.stride());
    copy_vectors(selection.rows(), column, shape.stride(), block.memory.data());
    block.vectors = {block.memory.data(), rows.size(), shape.dim, shape.type};
  }
  if (missing_vectors(rows, column) > 0) block.present = present_vectors(selection.rows(), column);
  return block;
}

}  // namespace warplite::storage

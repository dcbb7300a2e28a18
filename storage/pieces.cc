// Vectors of single rows. Who has read a whole block, and found its checksum right, knows pieces of
// it by theirs from then on, wherever they come from: from pages of the file that are looked up,
// which costs a microsecond each; or from SQLite, which follows the block's pages from the first
// one on.
#include <algorithm>
#include <cstring>

#include "storage/codec/checksum.h"
#include "storage/codec/wire.h"
#include "storage/file_pages.h"
#include "storage/store_impl.h"

namespace warplite::storage {
namespace {

constexpr std::size_t kPieceBytes = 4092;  // where the file does not say
constexpr std::size_t kReadAtOnce = std::size_t{1} << 16;

std::size_t begin_of(const VectorPieces& pieces, std::size_t piece) {
  return piece == 0 ? 0 : pieces.local + (piece - 1) * pieces.each;
}
std::size_t size_of(const VectorPieces& pieces, std::size_t piece) {
  if (piece == 0) return pieces.local;
  return std::min(pieces.each, pieces.bytes - begin_of(pieces, piece));
}
std::size_t piece_at(const VectorPieces& pieces, std::size_t byte) {
  return byte < pieces.local ? 0 : 1 + (byte - pieces.local) / pieces.each;
}

VectorPieces cut(std::span<const std::byte> block, ValuePlace place) {
  VectorPieces pieces;
  pieces.bytes = block.size();
  pieces.local = place.local;
  pieces.each = place.each;
  pieces.pages = std::move(place.pages);
  for (std::size_t i = 0; i == 0 || begin_of(pieces, i) < block.size(); ++i) {
    pieces.sums.push_back(checksum(block.subspan(begin_of(pieces, i), size_of(pieces, i)), i));
  }
  return pieces;
}

// Reads rows of one block.
class RowReader {
 public:
  RowReader(const Store::Impl& store, const BlockHeader& header, const VectorPieces& pieces,
            std::size_t stride)
      : store_(store),
        header_(header),
        pieces_(pieces),
        stride_(stride),
        file_(store.db, store.schema) {
    // What a page of the file has, its link among it.
    slot_ =
        pieces.pages.empty() ? kPageLink + std::max(pieces.each, pieces.local) : file_.page_bytes();
    direct_ = !pieces.pages.empty() && file_.usable() && slot_ >= kPageLink + pieces.each;
    slot_ = std::max(slot_, kPageLink + std::max(pieces.each, pieces.local));
  }

  void read(std::span<const std::uint32_t> rows, std::byte* out) {
    for (std::size_t i = 0; i < rows.size();) {
      const std::size_t first = first_piece(rows[i]);
      std::size_t last = last_piece(rows[i]), end = i + 1;
      // Rows whose pieces follow each other are read together.
      while (end < rows.size() && first_piece(rows[end]) <= last + 1 &&
             (last_piece(rows[end]) - first + 1) * slot_ <= kReadAtOnce) {
        last = last_piece(rows[end++]);
      }
      load(first, last - first + 1);
      for (; i < end; ++i, out += stride_) copy(rows[i], first, out);
    }
  }

  // Says whether all that was asked of the file was there.
  bool found_all() const { return direct_; }

 private:
  std::size_t begin(std::uint32_t row) const { return kBlockHeader + row * stride_; }
  std::size_t first_piece(std::uint32_t row) const { return piece_at(pieces_, begin(row)); }
  std::size_t last_piece(std::uint32_t row) const {
    return piece_at(pieces_, begin(row) + stride_ - 1);
  }
  std::byte* content(std::size_t slot) { return buffer_.data() + slot * slot_ + kPageLink; }

  void load(std::size_t first, std::size_t count) {
    if (buffer_.size() < count * slot_) buffer_.resize(count * slot_);
    for (std::size_t i = 0; i < count;) {
      const std::size_t n = pages_in_a_row(first + i, count - i);
      if (n == 0 || !from_file(first + i, n, i)) {
        from_host(first + i, std::max<std::size_t>(n, 1), i);
      }
      i += std::max<std::size_t>(n, 1);
    }
  }

  // Returns how many pieces lie one after another in the file; 0: it is not known.
  std::size_t pages_in_a_row(std::size_t piece, std::size_t most) const {
    if (!direct_ || piece == 0) return 0;
    std::size_t n = 1;
    while (n < most && pieces_.pages[piece - 1 + n] == pieces_.pages[piece - 1] + n) ++n;
    return n;
  }

  bool from_file(std::size_t first, std::size_t count, std::size_t slot) {
    // Of the last page no more than there may be.
    const std::size_t bytes = (count - 1) * slot_ + kPageLink + size_of(pieces_, first + count - 1);
    direct_ = file_.read(pieces_.pages[first - 1], {buffer_.data() + slot * slot_, bytes});
    for (std::size_t i = 0; direct_ && i < count; ++i) direct_ = intact(first + i, slot + i);
    return direct_;
  }

  bool intact(std::size_t piece, std::size_t slot) {
    return checksum({content(slot), size_of(pieces_, piece)}, piece) == pieces_.sums[piece];
  }

  void from_host(std::size_t first, std::size_t count, std::size_t slot) {
    if (!block_) block_.emplace(store_, header_);
    if (block_->bytes() != pieces_.bytes) corrupt("block has another length than it had");
    for (std::size_t i = 0; i < count; ++i) {
      block_->read(begin_of(pieces_, first + i), {content(slot + i), size_of(pieces_, first + i)});
      if (!intact(first + i, slot + i)) corrupt("block is not what it was");
    }
  }

  void copy(std::uint32_t row, std::size_t first, std::byte* out) {
    for (std::size_t at = begin(row), end = at + stride_; at < end;) {
      const std::size_t piece = piece_at(pieces_, at);
      const std::size_t within = at - begin_of(pieces_, piece);
      const std::size_t n = std::min(size_of(pieces_, piece) - within, end - at);
      std::memcpy(out, content(piece - first) + within, n);
      out += n;
      at += n;
    }
  }

  const Store::Impl& store_;
  const BlockHeader& header_;
  const VectorPieces& pieces_;
  const std::size_t stride_;
  const FilePages file_;
  std::size_t slot_;  // bytes of `buffer_` for a piece
  bool direct_;
  std::optional<BlockPieces> block_;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::optional<BlockFile> Store::Impl::block_file(FilePages::For readers) {
  const FilePages pages(db, schema, readers);
  if (!pages.usable()) return std::nullopt;
  const std::string name = table + "_blocks";
  Execution query = statements.use(Sql::kRootPage);
  query.bind_cell(Cell::text(name));
  if (!query.step()) return std::nullopt;
  return BlockFile{pages, static_cast<std::uint32_t>(query.integer(0))};
}

std::optional<ValuePlace> Store::Impl::find_pages(const BlockHeader& header, std::size_t bytes) {
  const auto file = block_file(FilePages::For::kConnection);
  return file ? file->pages.find(file->root, header.id(), bytes) : std::nullopt;
}

VectorPieces Store::cut_vectors(const SegmentInfo& segment, std::size_t column,
                                const BlockFile* file) {
  VectorBlock block = load_vectors(segment, column, file);
  const std::span<const std::byte> bytes(block.memory.data(), block.memory.size());
  const BlockHeader header = impl_->vectors_header(segment, column);
  auto place = file != nullptr ? file->pages.find(file->root, header.id(), bytes.size())
                               : impl_->find_pages(header, bytes.size());
  VectorPieces pieces = cut(bytes, place ? std::move(*place) : ValuePlace{0, kPieceBytes, {}});
  pieces.present = std::move(block.present);
  return pieces;
}

bool Store::read_vectors(const SegmentInfo& segment, std::size_t column, const VectorPieces& pieces,
                         std::span<const std::uint32_t> rows, std::byte* out) {
  const Layout::Vector& shape = impl_->layout.vectors[column];
  const BlockHeader header = impl_->vectors_header(segment, column);
  return impl_->at([&] { return impl_->place(header); },
                   [&] {
                     RowReader reader(*impl_, header, pieces, shape.stride());
                     reader.read(rows, out);
                     if (!all_finite(shape.type, {out, rows.size() * shape.stride()})) {
                       corrupt("a vector holds NaN or infinity");
                     }
                     return reader.found_all();
                   });
}

}  // namespace warplite::storage

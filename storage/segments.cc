// Segments as they are read, and the writes that do not seal one (seal.cc does).
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "core/process/interruption.h"
#include "storage/codec/column_codec.h"
#include "storage/codec/segment_codec.h"
#include "storage/codec/wire.h"
#include "storage/store_impl.h"

namespace warplite::storage {
namespace {

// A payload that is one number for each row.
template <typename T>
std::vector<T> numbers(std::span<const std::byte> payload, std::size_t rows) {
  Reader reader(payload);
  std::vector<T> all(rows);
  std::memcpy(all.data(), reader.take(rows * sizeof(T)).data(), rows * sizeof(T));
  reader.finish();
  return all;
}

std::uint32_t known_flags(BlockKind kind) {
  switch (kind) {
    case BlockKind::kVectors: return kHasPresence;
    case BlockKind::kModel: return kGivenModel;
    default: return 0;
  }
}

// Calls body(from, piece) for pieces of `bytes`, and asks between them whether it is to end.
template <typename Byte, typename Body>
void between_questions(std::span<Byte> bytes, const Body& body) {
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    if (at != 0) poll_interruption();
    body(at, bytes.subspan(at, std::min(kPiece, bytes.size() - at)));
  }
}

bool says_missing(std::string_view message) {
  return message.starts_with("no such rowid") || message.starts_with("cannot open value");
}

}  // namespace

std::string Store::Impl::place(const BlockHeader& header) const {
  if (header.kind == BlockKind::kModel) {
    return "model of vector column " + std::to_string(header.slot);
  }
  const std::string segment = "segment " + std::to_string(header.segment) + ", ";
  switch (header.kind) {
    case BlockKind::kRowids: return segment + "rowids";
    case BlockKind::kAlive: return segment + "alive bitmap";
    case BlockKind::kHashes: return segment + "hashes of rows";
    case BlockKind::kVectors:
      return segment + "vector column " + std::to_string(header.slot - kFirstColumnSlot);
    case BlockKind::kCodes:
      return segment + "codes of vector column " + std::to_string(header.slot - codes_slot(0));
    case BlockKind::kPlain:
    case BlockKind::kModel: break;
  }
  return segment + "column " + std::to_string(header.slot - plain_slot(0));
}

BlockPieces::BlockPieces(const Store::Impl& store, const BlockHeader& header, Access access)
    : store_(store) {
  const int code =
      sqlite3_blob_open(store.db, store.schema.c_str(), (store.table + "_blocks").c_str(), "data",
                        header.id(), access == Access::kWrite ? 1 : 0, &handle_);
  if (code == SQLITE_ERROR && says_missing(sqlite3_errmsg(store.db))) {
    storage::corrupt("block is missing");
  }
  check(code);
}

void BlockPieces::read(std::size_t from, std::span<std::byte> out) const {
  check(sqlite3_blob_read(handle_, out.data(), static_cast<int>(out.size()),
                          static_cast<int>(from)));
}

void BlockPieces::write(std::size_t from, std::span<const std::byte> bytes) const {
  check(sqlite3_blob_write(handle_, bytes.data(), static_cast<int>(bytes.size()),
                           static_cast<int>(from)));
}

Bytes Store::Impl::read_block(const BlockHeader& header, const BlockFile* file) const {
  if (file != nullptr) {
    if (auto block = file->pages.value(file->root, header.id())) return std::move(*block);
    storage::corrupt("block is not in the file");
  }
  const BlockPieces pieces(*this, header);
  check_room(pieces.bytes());
  Bytes block(pieces.bytes());
  between_questions(std::span(block.data(), block.size()),
                    [&](std::size_t at, std::span<std::byte> piece) { pieces.read(at, piece); });
  return block;
}

std::int64_t Store::Impl::number(Sql sql) const {
  Execution query = statements.use(sql);
  return query.step() ? query.integer(0) : 0;
}

void Store::Impl::check_room(std::size_t bytes) const {
  constexpr std::size_t kSmall = std::size_t{128} << 20;  // not worth a question
  if (bytes <= kSmall) return;
  std::int64_t there = 0;
  try {
    there = number(Sql::kPageCount) * number(Sql::kPageSize);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kHost) throw;  // an authorizer may refuse to tell
  }
  if (there != 0 && bytes > static_cast<std::uint64_t>(there)) {
    storage::corrupt("block of " + std::to_string(bytes) + " bytes in a database of " +
                     std::to_string(there));
  }
}

Bytes Store::Impl::load_block(BlockHeader& header, const BlockFile* file) const {
  poll_interruption();
  return at([&] { return place(header); },
            [&] {
              Bytes block = read_block(header, file);
              header.flags = verify_block(header, {block.data(), block.size()});
              if ((header.flags & ~known_flags(header.kind)) != 0) {
                storage::corrupt("unknown flags " + std::to_string(header.flags));
              }
              return block;
            });
}

void Store::Impl::write_block(const BlockHeader& header, std::span<std::byte> block) {
  const std::span<std::byte> payload = block.subspan(kBlockHeader);
  const LiftedLimit room(db, SQLITE_LIMIT_LENGTH);
  if (payload.size() > kMostInOneStep) return write_pieces(header, payload);
  write_header(header, payload, block.first<kBlockHeader>());
  statements.use(Sql::kWriteBlock).bind(header.id()).bind_blob(block).run();
}

void Store::Impl::write_pieces(const BlockHeader& header, std::span<const std::byte> payload) {
  statements.use(Sql::kWriteBlock)
      .bind(header.id())
      .bind_zeros(kBlockHeader + payload.size())
      .run();
  poll_interruption();
  const BlockPieces pieces(*this, header, BlockPieces::Access::kWrite);
  std::array<std::byte, kBlockHeader> first;
  write_header(header, payload, first);
  pieces.write(0, first);
  between_questions(payload, [&](std::size_t at, std::span<const std::byte> piece) {
    pieces.write(kBlockHeader + at, piece);
  });
}

void Store::Impl::write_segment(const SegmentInfo& segment) {
  const std::string record = encode_segment(segment, layout);
  statements.use(Sql::kWriteSegment).bind(segment.id).bind_blob(as_bytes(record)).run();
}

std::vector<SegmentInfo> Store::read_segments() {
  std::vector<SegmentInfo> segments;
  Execution query = impl_->statements.use(Sql::kReadSegments);
  while (query.step()) {
    const std::int64_t id = query.integer(0);
    impl_->at([&] { return "segment " + std::to_string(id) + ", directory entry"; }, [&] {
      if (!segments.empty() && id <= segments.back().id) corrupt("is out of order");
      segments.push_back(decode_segment(query.blob(1), id, impl_->layout));
    });
  }
  return segments;
}

void Store::verify_directory(const State& state, const DirectorySummary& found,
                             std::int64_t last) const {
  if (last >= state.next_segment) {
    impl_->corrupt("directory", "segment " + std::to_string(last) +
                                    " is not below the state record's next, " +
                                    std::to_string(state.next_segment));
  }
  if (found.segments != state.directory.segments) {
    impl_->corrupt("directory", "has " + std::to_string(found.segments) +
                                    " segments where the state record says " +
                                    std::to_string(state.directory.segments));
  }
  if (found != state.directory) {
    impl_->corrupt("directory", "is not the one that the state record describes");
  }
}

std::shared_ptr<const BlockFile> Store::block_file() {
  auto file = impl_->block_file(FilePages::For::kAnyThread);
  return file ? std::make_shared<const BlockFile>(std::move(*file)) : nullptr;
}

VectorBlock Store::load_vectors(const SegmentInfo& segment, std::size_t column,
                                const BlockFile* file) {
  const Layout::Vector& shape = impl_->layout.vectors[column];
  if (segment.vectors[column].is_null()) {
    // Without a block, every vector is NULL.
    VectorBlock block{Bytes(segment.rows * shape.stride()), {}, Bitmap(segment.rows)};
    std::fill_n(block.memory.data(), block.memory.size(), std::byte{0});
    block.vectors = {block.memory.data(), segment.rows, shape.dim, shape.type};
    return block;
  }
  BlockHeader header = impl_->vectors_header(segment, column);
  VectorBlock block;
  block.memory = impl_->load_block(header, file);
  impl_->at([&] { return impl_->place(header); }, [&] {
    Reader reader(payload(block.memory));
    const auto vectors = reader.take(segment.rows * shape.stride());
    block.vectors = {vectors.data(), segment.rows, shape.dim, shape.type};
    if ((header.flags & kHasPresence) != 0) {
      block.present = decode_bitmap(reader.take(bitmap_bytes(segment.rows)), segment.rows);
    }
    reader.finish();
    if (!all_finite(shape.type, vectors)) corrupt("a vector holds NaN or infinity");
  });
  return block;
}

Column Store::load_plain(const SegmentInfo& segment, std::size_t column, const BlockFile* file) {
  const PlainType type = impl_->layout.plains[column];
  if (segment.plains[column].is_null()) {
    Column nulls(type);
    for (std::uint32_t row = 0; row < segment.rows; ++row) nulls.append(Cell::null());
    return nulls;
  }
  BlockHeader header = impl_->plain_header(segment, column);
  const Bytes block = impl_->load_block(header, file);
  return impl_->at([&] { return impl_->place(header); },
                   [&] {
                     return decode_column(type, segment.rows, payload(block),
                                          impl_->layout.sparse_dim(column));
                   });
}

std::vector<RowId> Store::load_rowids(const SegmentInfo& segment) {
  BlockHeader header = impl_->rowids_header(segment);
  const Bytes block = impl_->load_block(header);
  return impl_->at([&] { return impl_->place(header); }, [&] {
    const auto rowids = numbers<RowId>(payload(block), segment.rows);
    if (std::adjacent_find(rowids.begin(), rowids.end(), std::greater_equal<>()) != rowids.end()) {
      corrupt("rowids are not in ascending order");
    }
    if (rowids.front() != segment.min_rowid || rowids.back() != segment.max_rowid) {
      corrupt("rowids do not span the segment's range");
    }
    return rowids;
  });
}

std::vector<std::uint64_t> Store::load_hashes(const SegmentInfo& segment) {
  BlockHeader header = impl_->hashes_header(segment);
  const Bytes block = impl_->load_block(header);
  return impl_->at([&] { return impl_->place(header); },
                   [&] { return numbers<std::uint64_t>(payload(block), segment.rows); });
}

Bitmap Store::load_alive(const SegmentInfo& segment) {
  BlockHeader header = impl_->alive_header(segment);
  const Bytes block = impl_->load_block(header);
  return impl_->at([&] { return impl_->place(header); }, [&] {
    Reader reader(payload(block));
    Bitmap alive = decode_bitmap(reader.take(bitmap_bytes(segment.rows)), segment.rows);
    reader.finish();
    if (alive.count() != segment.live_rows) {
      corrupt(std::to_string(alive.count()) + " rows are alive, expected " +
              std::to_string(segment.live_rows));
    }
    return alive;
  });
}

void Store::write_alive(SegmentInfo& segment, const Bitmap& alive) {
  WARP_CHECK(alive.size() == segment.rows);
  const KeepLastInsertRowid keep(impl_->db);
  SegmentInfo changed = segment;
  changed.alive = new_stamp();
  changed.live_rows = static_cast<std::uint32_t>(alive.count());
  Bytes block(kBlockHeader + bitmap_bytes(alive.size()));
  std::memcpy(block.data() + kBlockHeader, alive.words(), bitmap_bytes(alive.size()));
  impl_->write_block(impl_->alive_header(changed), {block.data(), block.size()});
  impl_->write_segment(changed);
  segment = std::move(changed);
}

void Store::drop_segment(const SegmentInfo& segment) {
  impl_->statements.use(Sql::kEraseBlocks)
      .bind(segment.id * kSlots)
      .bind(segment.id * kSlots + kSlots - 1)
      .run();
  impl_->statements.use(Sql::kEraseSegment).bind(segment.id).run();
}

}  // namespace warplite::storage

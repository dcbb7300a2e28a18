// Store::Impl holds what the parts of Store share: its members are defined in schema.cc, state.cc,
// segments.cc, cache_keys.cc, seal.cc, codes.cc, content.cc, tail.cc, keys.cc and integrity.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/elements.h"
#include "storage/codec/block_codec.h"
#include "storage/file_pages.h"
#include "storage/statements.h"
#include "storage/storage.h"

namespace warplite::storage {

struct BlockFile {
  FilePages pages;
  std::uint32_t root;  // of the table of blocks
};

struct Store::Impl {
  Impl(sqlite3* connection, std::string schema_name, std::string table_name, Layout table_layout)
      : db(connection), schema(std::move(schema_name)), table(std::move(table_name)),
        layout(std::move(table_layout)), statements(db, schema, table, layout) {}

  sqlite3* const db;
  const Stamp connected = new_stamp();  // names this store
  const std::string schema;
  std::string table;
  std::vector<std::string> former_names;  // that a rollback may bring back, the last one last
  const Layout layout;
  mutable Statements statements;  // reading takes some, too

  // The suffixes of the shadow tables that there are of this layout.
  std::vector<std::string_view> own_tables();

  std::uint16_t vector_slot(std::size_t column) const {
    return static_cast<std::uint16_t>(kFirstColumnSlot + column);
  }
  std::uint16_t plain_slot(std::size_t column) const {
    return static_cast<std::uint16_t>(kFirstColumnSlot + layout.vectors.size() + column);
  }
  std::uint16_t codes_slot(std::size_t column) const {
    return static_cast<std::uint16_t>(plain_slot(layout.plains.size()) + column);
  }
  std::uint16_t hashes_slot() const { return codes_slot(layout.vectors.size()); }

  // Headers of a segment's blocks as its directory entry promises them.
  BlockHeader rowids_header(const SegmentInfo& segment) const {
    return {BlockKind::kRowids, kRowidsSlot, segment.id, segment.rows, segment.rowids};
  }
  BlockHeader alive_header(const SegmentInfo& segment) const {
    return {BlockKind::kAlive, kAliveSlot, segment.id, segment.rows, segment.alive};
  }
  BlockHeader hashes_header(const SegmentInfo& segment) const {
    return {BlockKind::kHashes, hashes_slot(), segment.id, segment.rows, segment.hashes};
  }
  BlockHeader vectors_header(const SegmentInfo& segment, std::size_t column) const {
    const Layout::Vector& shape = layout.vectors[column];
    return {BlockKind::kVectors, vector_slot(column), segment.id, segment.rows,
            segment.vectors[column], static_cast<std::uint8_t>(shape.type), shape.dim};
  }
  BlockHeader plain_header(const SegmentInfo& segment, std::size_t column) const {
    return {BlockKind::kPlain, plain_slot(column), segment.id, segment.rows,
            segment.plains[column], static_cast<std::uint8_t>(layout.plains[column]),
            layout.sparse_dim(column)};
  }

  BlockHeader codes_header(const SegmentInfo& segment, std::size_t column) const {
    return {BlockKind::kCodes, codes_slot(column), segment.id, segment.rows,
            segment.codes[column].block};
  }
  BlockHeader model_header(const Stamp& stamp, std::size_t column) const {
    return {BlockKind::kModel, static_cast<std::uint16_t>(column), kModelSegment, 0, stamp};
  }

  [[noreturn]] void corrupt(const std::string& where, const std::string& what) const {
    throw Error(ErrorKind::kCorrupt, table + ": " + where + ": " + what);
  }
  // Runs `decode`, and adds table and place to what it finds corrupt. `where()` is a string.
  template <typename Where, typename Decode>
  auto at(Where&& where, Decode&& decode) const {
    try {
      return decode();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      corrupt(where(), error.what());
    }
  }
  // Begins a key that names something of this database in memory.
  KeyWriter start_key() const;
  // Begins that of a block; the caller may add more that reading it depends on.
  KeyWriter start_key(const BlockHeader& header) const;
  CacheKey key(const BlockHeader& header) const;
  // "segment 3, column 2"
  std::string place(const BlockHeader& header) const;

  // A verified block: header and payload. Its flags replace those of `header`. Null: SQLite reads.
  Bytes load_block(BlockHeader& header, const BlockFile* file = nullptr) const;
  // Fills in the header of `block`, whose payload is ready, and writes it.
  void write_block(const BlockHeader& header, std::span<std::byte> block);
  // Writes a large one from its payload.
  void write_pieces(const BlockHeader& header, std::span<const std::byte> payload);
  void write_segment(const SegmentInfo& segment);
  OpaqueBlock load_opaque(BlockHeader header, const BlockFile* file = nullptr) const;
  void write_opaque(const BlockHeader& header, std::span<const std::byte> bytes);
  std::optional<BlockFile> block_file(FilePages::For readers);
  // Where the file has a block of so many bytes; none: nobody can say.
  std::optional<ValuePlace> find_pages(const BlockHeader& header, std::size_t bytes);

 private:
  Bytes read_block(const BlockHeader& header, const BlockFile* file) const;
  // Throws Error{kCorrupt} where a cell says that it has more bytes than the database: so memory follows what
  // is there.
  void check_room(std::size_t bytes) const;
  std::int64_t number(Sql sql) const;
};

// One block that is read or written piece by piece: its pages go straight to where they are wanted, or
// come from there. It follows them from the first one on, once.
class BlockPieces {
 public:
  enum class Access { kRead, kWrite };
  // Throws Error{kCorrupt} when there is no such block, Error{kHost}.
  BlockPieces(const Store::Impl& store, const BlockHeader& header, Access access = Access::kRead);
  ~BlockPieces() { sqlite3_blob_close(handle_); }
  BlockPieces(const BlockPieces&) = delete;
  BlockPieces& operator=(const BlockPieces&) = delete;

  std::size_t bytes() const { return static_cast<std::size_t>(sqlite3_blob_bytes(handle_)); }
  // REQUIRES: they lie within the block.
  void read(std::size_t from, std::span<std::byte> out) const;
  // REQUIRES: kWrite, and that they lie within the block.
  void write(std::size_t from, std::span<const std::byte> bytes) const;

 private:
  void check(int code) const {
    if (code != SQLITE_OK) throw_host(store_.db, store_.table, code);
  }

  const Store::Impl& store_;
  sqlite3_blob* handle_ = nullptr;
};

// SQLite takes a value in one step, which nobody can interrupt, and copies it before. Zeros it makes in
// place; so pieces over zeros are the faster way for larger blocks, and smaller ones would be written twice.
inline constexpr std::size_t kMostInOneStep = std::size_t{16} << 20;

// The payload of a block.
inline std::span<const std::byte> payload(const Bytes& block) {
  return std::span<const std::byte>(block.data(), block.size()).subspan(kBlockHeader);
}

}  // namespace warplite::storage

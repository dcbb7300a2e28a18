// A block is a header of kBlockHeader bytes and a payload. The header says which
// block of which segment it is, under which stamp, and carries the checksum of
// the whole block. docs/file_format.md, "Blocks".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bitmap.h"
#include "core/process/stamp.h"
#include "core/types.h"
#include "storage/codec/records.h"

namespace warplite::storage {

// Persisted: values never change.
enum class BlockKind : std::uint8_t {
  kRowids = 1,
  kAlive = 2,
  kVectors = 3,
  kPlain = 4,
  kCodes = 5,
  kModel = 6,
  kHashes = 7,
};

// A presence bitmap follows the vectors.
inline constexpr std::uint32_t kHasPresence = 1;
// The model was given to the table, which did not learn it.
inline constexpr std::uint32_t kGivenModel = 1;

// A segment has this many ids of blocks: segment * kSlots + slot.
inline constexpr std::int64_t kSlots = 4096;
inline constexpr std::uint16_t kRowidsSlot = 0;
inline constexpr std::uint16_t kAliveSlot = 1;
// Vectors, then plain columns, then codes; hashes follow them.
inline constexpr std::uint16_t kFirstColumnSlot = 2;
// Its blocks are models, each in the slot that is its vector column's number.
inline constexpr std::int64_t kModelSegment = 0;
inline constexpr std::int64_t kMaxSegment = (std::int64_t{1} << 51) - 1;

struct BlockHeader {
  BlockKind kind;
  std::uint16_t slot;
  std::int64_t segment;
  std::uint32_t rows;
  Stamp stamp;
  std::uint8_t type = 0;    // ElementType or PlainType, 0 for the others
  std::uint32_t dim = 0;    // of vectors
  std::uint32_t flags = 0;  // free for the reader; every other field is expected

  std::int64_t id() const { return segment * kSlots + slot; }
};

// Fills in the header of a block whose payload is ready.
void write_header(const BlockHeader& header, std::span<const std::byte> payload,
                  std::span<std::byte, kBlockHeader> out);

// Returns the flags. Throws Error{kCorrupt} unless `block` is intact and is the one expected.
std::uint32_t verify_block(const BlockHeader& expected, std::span<const std::byte> block);

inline std::size_t bitmap_bytes(std::size_t bits) { return (bits + 63) / 64 * 8; }
// Throws Error{kCorrupt} when a bit past `bits` is set.
// REQUIRES: bytes.size() == bitmap_bytes(bits)
Bitmap decode_bitmap(std::span<const std::byte> bytes, std::size_t bits);

}  // namespace warplite::storage

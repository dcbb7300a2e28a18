#include "storage/codec/block_codec.h"

#include <cstring>
#include <string>

#include "storage/codec/checksum.h"
#include "storage/codec/wire.h"

namespace warplite::storage {
namespace {

constexpr std::uint32_t kMagic = 0x4b425057;  // "WPBK"
constexpr std::uint8_t kVersion = 1;

// The header as it lies in the file.
struct Stored {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t kind;
  std::uint16_t slot;
  std::int64_t segment;
  std::uint32_t rows;
  std::uint32_t flags;
  std::uint64_t payload;
  Stamp stamp;
  std::uint8_t type;
  std::uint8_t zero[3];
  std::uint32_t dim;
  std::uint64_t checksum;
};
static_assert(sizeof(Stored) == kBlockHeader);
static_assert(kBlockHeader == Checksum::kStripe);

Stored stored(const BlockHeader& header, std::uint64_t payload) {
  return {kMagic, kVersion, static_cast<std::uint8_t>(header.kind), header.slot, header.segment,
          header.rows, header.flags, payload, header.stamp, header.type, {}, header.dim, 0};
}

// REQUIRES: header.checksum == 0
std::uint64_t block_checksum(const Stored& header, std::span<const std::byte> payload) {
  Checksum sum;
  sum.update(std::as_bytes(std::span(&header, 1)));
  sum.update(payload);
  return sum.finish();
}

template <typename Got, typename Want>
void expect(const char* field, Got got, Want want) {
  if (got == want) return;
  corrupt(std::string(field) + " is " + std::to_string(got) + ", expected " +
          std::to_string(want));
}

}  // namespace

void write_header(const BlockHeader& header, std::span<const std::byte> payload,
                  std::span<std::byte, kBlockHeader> out) {
  Stored to = stored(header, payload.size());
  to.checksum = block_checksum(to, payload);
  std::memcpy(out.data(), &to, sizeof to);
}

std::uint32_t verify_block(const BlockHeader& expected, std::span<const std::byte> block) {
  if (block.size() < kBlockHeader) {
    corrupt("block of " + std::to_string(block.size()) + " bytes is shorter than its header");
  }
  Stored got;
  std::memcpy(&got, block.data(), sizeof got);
  expect("magic number", got.magic, kMagic);
  expect("version", got.version, kVersion);
  expect("payload length", got.payload, block.size() - kBlockHeader);
  const std::uint64_t sum = got.checksum;
  got.checksum = 0;
  if (block_checksum(got, block.subspan(kBlockHeader)) != sum) corrupt("checksum differs");
  const Stored want = stored(expected, got.payload);
  expect("kind", got.kind, want.kind);
  expect("slot", got.slot, want.slot);
  expect("segment", got.segment, want.segment);
  expect("row count", got.rows, want.rows);
  expect("type", got.type, want.type);
  expect("dimension", got.dim, want.dim);
  if (got.stamp != want.stamp) corrupt("stamp differs from the segment's");
  return got.flags;
}

Bitmap decode_bitmap(std::span<const std::byte> bytes, std::size_t bits) {
  Bitmap bitmap(bits);
  if (bits == 0) return bitmap;
  std::memcpy(bitmap.words(), bytes.data(), bytes.size());
  if (bits % 64 != 0 && (bitmap.words()[bitmap.word_count() - 1] >> (bits % 64)) != 0) {
    corrupt("bitmap has bits past row " + std::to_string(bits));
  }
  return bitmap;
}

}  // namespace warplite::storage

// The header of an LSH model, where its numbers lie, and how wide buckets are in codes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "index/lsh/options.h"

namespace warplite::index {

static_assert(std::endian::native == std::endian::little, "stored bytes are little-endian");

struct LshHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t dim, m, buckets;
  std::uint8_t distance, type, family, zero;
  std::uint32_t seed;
  double given;  // the width or sigma of the options: 0 when it was chosen
  double scale;
  std::uint64_t trained_on, table_rows;
  std::uint64_t zeros[2];
};
static_assert(sizeof(LshHeader) == 80);

// Positions of the arrays, in floats behind the header.
struct LshLayout {
  std::size_t factors = 0, offsets = 0;  // how many

  static LshLayout of(LshFamily family, std::uint32_t m, std::uint32_t dim) {
    const std::size_t all = std::size_t{m} * dim;
    switch (family) {
      case LshFamily::kE2lsh: return {all, m};
      case LshFamily::kRbh: return {all, all};
      case LshFamily::kSimhash: return {all, 0};
    }
    return {};
  }
  std::size_t size() const { return sizeof(LshHeader) + (factors + offsets) * sizeof(float); }
};

// Bytes of a bucket in the codes of rows (lsh_codes.h); 0: it is a bit.
inline std::uint32_t bucket_bytes(LshFamily family, std::uint32_t buckets) {
  if (family == LshFamily::kSimhash) return 0;
  return buckets <= 65536 ? 2 : 4;
}
// Returns how many bytes the buckets of a row take; bits fill whole words, which are compared three
// times as fast.
inline std::size_t signature_bytes(LshFamily family, std::uint32_t m, std::uint32_t buckets) {
  const std::size_t each = bucket_bytes(family, buckets);
  return each == 0 ? (std::size_t{m} + 63) / 64 * 8 : m * each;
}

}  // namespace warplite::index

// Defines how a plain column's payload begins; docs/file_format.md, "Plain columns". Shared by
// column_encode.cc and column_decode.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplite::storage {

// Persisted: values never change.
enum class Encoding : std::uint8_t { kInteger = 1, kReal = 2, kText = 3, kDictionary = 4 };

inline constexpr std::size_t kMaxDictionary = 65536;  // codes take at most two bytes
inline constexpr std::uint64_t kMaxTextBytes = 0xffffffff;  // of one column, as in core/column.h

// The first 16 bytes of the payload, as they lie in the file.
struct Prefix {
  Encoding encoding;
  std::uint8_t width;      // bytes per row: of an integer, a length or a code
  std::uint8_t has_nulls;  // 1: a bitmap of NULL rows follows
  std::uint8_t zero;
  std::uint32_t count;     // entries of the dictionary
  std::uint64_t base;      // added to every integer; of texts, their bytes in all
};
static_assert(sizeof(Prefix) == 16);

}  // namespace warplite::storage

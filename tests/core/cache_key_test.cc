// Names of what is in memory: the hash is the published one, and every part of a name counts.
#include <doctest/doctest.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/process/cache_key.h"

namespace warplite {
namespace {

// The bytes 0, 1, 2 … of the vectors that were published with SipHash.
std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

}  // namespace

TEST_CASE("keyed_hash is SipHash-2-4 of 128 bits") {
  const Stamp secret{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  CHECK(keyed_hash(secret, counted(0)) == CacheKey{0xe6a825ba047f81a3, 0x930255c71472f66d});
  CHECK(keyed_hash(secret, counted(1)) == CacheKey{0x44af996bd8c187da, 0x45fc229b11597634});
  CHECK(keyed_hash(secret, counted(8)) == CacheKey{0x61f55862baa9623b, 0xb49714f364e2830f});
  CHECK(keyed_hash(secret, counted(63)) == CacheKey{0x4a83502f77d15051, 0x7cbd3f979a063e50});
}

TEST_CASE("keys differ where anything that they are made from does") {
  const auto key = [](std::string_view file, int rows, const Stamp& stamp) {
    return KeyWriter().add_text(file).add(rows).add(stamp).key();
  };
  const Stamp stamp{1, 2};
  CHECK(key("a.db", 5, stamp) == key("a.db", 5, stamp));
  CHECK(!(key("a.db", 5, stamp) == key("b.db", 5, stamp)));
  CHECK(!(key("a.db", 5, stamp) == key("a.db", 6, stamp)));
  CHECK(!(key("a.db", 5, stamp) == key("a.db", 5, {2, 1})));
  // Where one text ends and the next begins counts too.
  CHECK(!(KeyWriter().add_text("ab").add_text("c").key() ==
          KeyWriter().add_text("a").add_text("bc").key()));
  CHECK(!key("", 0, {}).is_null());
}

}  // namespace warplite

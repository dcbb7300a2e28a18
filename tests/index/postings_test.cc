#include "index/tiles/postings.h"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/tile_checks.h"

using namespace warplite;
using namespace warplite::index;
using testing::check_tile;
using compute::Keyword;
using compute::TileLayout;

namespace {

using Random = std::mt19937_64;
using Lists = std::map<Keyword, std::vector<std::uint16_t>>;

Lists read(const Postings& tile) {
  const TileLayout at = TileLayout::of(tile.keywords, tile.postings);
  REQUIRE(tile.bytes.size() == at.size);
  const std::byte* bytes = tile.bytes.data();
  const auto* keys = reinterpret_cast<const Keyword*>(bytes + at.keys);
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  const auto* rows = reinterpret_cast<const std::uint16_t*>(bytes + at.rows);
  Lists lists;
  for (std::uint32_t i = 0; i < tile.keywords; ++i) {
    lists[keys[i]].assign(rows + begins[i], rows + begins[i + 1]);
  }
  CHECK(lists.size() == tile.keywords);
  return lists;
}

void check(const Postings& tile) {
  check_tile({tile.bytes.data(), tile.bytes.size()}, tile.keywords, tile.postings, tile.rows);
}

// Rows with keywords of `universe`, some of them more than once.
struct Drawn {
  Postings tile;
  Lists expected;
};
Drawn draw(PostingsBuilder& builder, std::uint32_t rows, std::size_t most,
           const std::function<Keyword(Random&)>& keyword, std::uint64_t seed) {
  Random random(seed);
  Drawn drawn;
  std::map<Keyword, std::set<std::uint16_t>> lists;
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::vector<Keyword> keywords(random() % (most + 1));
    for (Keyword& key : keywords) {
      key = keyword(random);
      lists[key].insert(static_cast<std::uint16_t>(row));
    }
    CHECK(builder.rows() == row);
    builder.add_row(keywords);
  }
  for (const auto& [key, set] : lists) drawn.expected[key].assign(set.begin(), set.end());
  drawn.tile = builder.finish();
  return drawn;
}

bool accepted(std::span<const std::byte> bytes, const Postings& tile) {
  try {
    check_tile(bytes, tile.keywords, tile.postings, tile.rows);
    return true;
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kCorrupt);
    return false;
  }
}

// What devices do with bytes that were accepted.
bool safe(std::span<const std::byte> bytes, const Postings& tile) {
  const TileLayout at = TileLayout::of(tile.keywords, tile.postings);
  const auto* keys = reinterpret_cast<const Keyword*>(bytes.data() + at.keys);
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes.data() + at.begins);
  const auto* rows = reinterpret_cast<const std::uint16_t*>(bytes.data() + at.rows);
  if (begins[0] != 0 || begins[tile.keywords] != tile.postings) return false;
  for (std::uint32_t i = 0; i < tile.keywords; ++i) {
    if (i > 0 && keys[i - 1] >= keys[i]) return false;
    if (begins[i] > begins[i + 1] || begins[i + 1] > tile.postings) return false;
    for (std::uint32_t p = begins[i]; p < begins[i + 1]; ++p) {
      if (rows[p] >= tile.rows || (p > begins[i] && rows[p - 1] >= rows[p])) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("postings: a tile has what was added, sorted, once") {
  PostingsBuilder builder;  // the same one for all: nothing of a tile stays for the next
  std::uint64_t seed = 0;
  for (std::uint32_t rows : {0u, 1u, 2u, 100u, 3000u}) {
    for (std::size_t most : {0, 1, 5, 60}) {
      for (std::uint64_t universe : {1, 10, 3000, 1000000000}) {
        // Neighbouring keywords, and such that differ in their upper bits alone.
        const int shift = ++seed % 2 == 0 ? 0 : 34;
        const Drawn drawn = draw(
            builder, rows, most,
            [&](Random& random) { return random() % universe << shift; }, seed);
        CHECK(drawn.tile.rows == rows);
        CHECK(read(drawn.tile) == drawn.expected);
        check(drawn.tile);
      }
    }
  }
}

TEST_CASE("postings: as many rows as a tile holds, and the extreme keywords") {
  PostingsBuilder builder;
  const std::vector<Keyword> ends{~Keyword{0}, 0, ~Keyword{0}};
  for (std::uint32_t row = 0; row < compute::kTileRows; ++row) {
    builder.add_row(row % 3 == 0 ? ends : std::vector<Keyword>{});
  }
  const Postings tile = builder.finish();
  check(tile);
  const Lists lists = read(tile);
  REQUIRE(lists.size() == 2);
  for (const Keyword key : ends) {
    REQUIRE(lists.at(key).size() == 21846);
    CHECK(lists.at(key).front() == 0);
    CHECK(lists.at(key).back() == 65535);
  }
}

TEST_CASE("postings: damaged bytes are refused, or do no harm") {
  PostingsBuilder builder;
  Random random(5);
  std::size_t refused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Drawn drawn = draw(
        builder, 1 + static_cast<std::uint32_t>(random() % 90), 6,
        [](Random& source) { return source() % 40; }, seed);
    const std::size_t size = drawn.tile.bytes.size();
    for (int round = 0; round < 300; ++round) {
      Bytes bytes(size);
      std::memcpy(bytes.data(), drawn.tile.bytes.data(), size);
      for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
        bytes.data()[random() % size] = static_cast<std::byte>(random() % 3 == 0 ? 0xff : random());
      }
      if (accepted({bytes.data(), size}, drawn.tile)) {
        CHECK(safe({bytes.data(), size}, drawn.tile));
      } else {
        CHECK_FALSE(safe({bytes.data(), size}, drawn.tile));
        ++refused;
      }
    }
  }
  CHECK(refused > 3000);
}

TEST_CASE("postings: sizes that are not those of the bytes are refused") {
  PostingsBuilder builder;
  const Drawn drawn =
      draw(builder, 200, 9, [](Random& source) { return source() % 70; }, 9);
  const Postings& tile = drawn.tile;
  const std::span<const std::byte> bytes(tile.bytes.data(), tile.bytes.size());
  const auto refuses = [&](std::span<const std::byte> some, std::uint32_t keywords,
                           std::uint32_t postings, std::uint32_t rows) {
    CHECK_THROWS_AS(check_tile(some, keywords, postings, rows), Error);
  };
  for (std::size_t size = 0; size < bytes.size(); size += 61) {
    refuses(bytes.first(size), tile.keywords, tile.postings, tile.rows);
  }
  refuses(bytes, tile.keywords - 1, tile.postings, tile.rows);
  refuses(bytes, tile.keywords + 1, tile.postings, tile.rows);
  refuses(bytes, tile.keywords, tile.postings - 1, tile.rows);
  refuses(bytes, tile.keywords, tile.postings + 1, tile.rows);
  refuses(bytes, 0xffffffffu, 0xffffffffu, tile.rows);
  refuses(bytes, tile.keywords, tile.postings, tile.rows / 2);
  refuses(bytes, tile.keywords, tile.postings, 0);
  refuses(bytes, tile.keywords, tile.postings, compute::kTileRows + 1);
  check_tile(bytes, tile.keywords, tile.postings, compute::kTileRows);
}

#include "index/tiles/edit_tile.h"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/utf8.h"
#include "tests/support/tile_checks.h"

using namespace warplite;
using namespace warplite::index;
using testing::check_edit_tile;
using compute::EditLayout;
using compute::EditTile;
using compute::kEditGroup;

namespace {

using Random = std::mt19937_64;
using Texts = std::map<std::uint32_t, CodePoints>;  // by row

EditTile sizes_of(const EditTexts& texts) {
  EditTile tile;
  tile.alphabet = texts.alphabet;
  tile.texts = texts.texts;
  tile.positions = texts.positions;
  tile.width = texts.width;
  tile.rows = texts.rows;
  return tile;
}

std::span<const std::byte> bytes_of(const EditTexts& texts) {
  return {texts.bytes.data(), texts.bytes.size()};
}

// Reads a tile whose numbers are those of a builder.
class Reader {
 public:
  Reader(const EditTile& tile, const std::byte* bytes)
      : tile_(tile), bytes_(bytes),
        at_(EditLayout::of(tile.alphabet, tile.texts, tile.positions, tile.width)) {}

  std::uint32_t number(std::size_t begin, std::size_t width, std::size_t i) const {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes_ + begin + i * width, width);
    return value;
  }
  std::uint32_t row(std::size_t i) const { return number(at_.rows, 2, i); }
  std::uint32_t length(std::size_t i) const { return number(at_.lengths, 2, i); }
  std::uint32_t begin(std::size_t group) const { return number(at_.begins, 4, group); }
  std::uint32_t symbol(std::size_t i, std::size_t position) const {
    const std::size_t place = begin(i / kEditGroup) + position;
    return number(at_.symbols, tile_.width, place * kEditGroup + i % kEditGroup);
  }
  std::uint32_t point(std::size_t i, std::size_t position) const {
    const std::uint32_t it = symbol(i, position);
    return tile_.width == 4 ? it : number(at_.alphabet, 4, it);
  }
  std::size_t places() const { return (tile_.texts + kEditGroup - 1) / kEditGroup * kEditGroup; }

  // What devices do with bytes that were accepted.
  bool safe() const {
    std::set<std::uint32_t> rows;
    for (std::size_t i = 0; i < places(); ++i) {
      if (i >= tile_.texts) {
        if (row(i) != 0 || length(i) != 0) return false;
        continue;
      }
      if (row(i) >= tile_.rows || !rows.insert(row(i)).second) return false;
      if (length(i) > compute::kLongestEditText) return false;
      if (i == 0) continue;
      if (length(i) < length(i - 1)) return false;
      if (length(i) == length(i - 1) && row(i) < row(i - 1)) return false;
    }
    std::uint32_t begin_of = 0;
    for (std::size_t g = 0; g < places() / kEditGroup; ++g) {
      if (begin(g) != begin_of) return false;
      begin_of += length(std::min<std::size_t>((g + 1) * kEditGroup, tile_.texts) - 1);
    }
    return begin(places() / kEditGroup) == begin_of && begin_of == tile_.positions &&
           symbols_are_safe();
  }

 private:
  bool symbols_are_safe() const {
    const std::uint32_t none = tile_.width == 1 ? 0xff : tile_.width == 2 ? 0xffff : 0xffffffff;
    for (std::size_t i = 0; i < places(); ++i) {
      const std::size_t group = i / kEditGroup;
      for (std::uint32_t p = 0; p < begin(group + 1) - begin(group); ++p) {
        const std::uint32_t most = tile_.width == 4 ? 0x110000 : tile_.alphabet;
        if (p < length(i) ? symbol(i, p) >= most : symbol(i, p) != none) return false;
      }
    }
    for (std::uint32_t i = 0; i < tile_.alphabet; ++i) {
      if (number(at_.alphabet, 4, i) > 0x10ffff) return false;
      if (i > 0 && number(at_.alphabet, 4, i - 1) >= number(at_.alphabet, 4, i)) return false;
    }
    return true;
  }

  const EditTile& tile_;
  const std::byte* bytes_;
  const EditLayout at_;
};

Texts read(const EditTexts& texts) {
  const EditTile tile = sizes_of(texts);
  const Reader reader(tile, texts.bytes.data());
  Texts found;
  for (std::uint32_t i = 0; i < texts.texts; ++i) {
    CodePoints& points = found[reader.row(i)];
    for (std::uint32_t p = 0; p < reader.length(i); ++p) points.push_back(reader.point(i, p));
  }
  CHECK(found.size() == texts.texts);
  CHECK(reader.safe());
  return found;
}

struct Drawn {
  EditTexts tile;
  Texts expected;
};

// Every ninth row has no text.
Drawn draw(EditTileBuilder& builder, std::uint32_t rows, std::size_t longest,
           std::uint32_t alphabet, std::uint64_t seed) {
  Random random(seed);
  Drawn drawn;
  for (std::uint32_t row = 0; row < rows; ++row) {
    CHECK(builder.rows() == row);
    if (row % 9 == 4) {
      builder.skip_row();
      continue;
    }
    CodePoints& points = drawn.expected[row];
    points.resize(random() % (longest + 1));
    for (std::uint32_t& point : points) point = static_cast<std::uint32_t>(random() % alphabet);
    builder.add_row(points);
  }
  drawn.tile = builder.finish();
  CHECK(drawn.tile.rows == rows);
  return drawn;
}

bool accepted(std::span<const std::byte> bytes, const EditTile& tile) {
  try {
    check_edit_tile(bytes, tile);
    return true;
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kCorrupt);
    return false;
  }
}

}  // namespace

TEST_CASE("edit tile: a tile has the texts that were added, by length") {
  EditTileBuilder builder;  // the same one for all: nothing of a tile stays for the next
  std::uint64_t seed = 0;
  for (const std::uint32_t rows : {0u, 1u, 31u, 32u, 33u, 500u}) {
    for (const std::size_t longest : {0, 1, 7, 64, 300}) {
      for (const std::uint32_t alphabet : {1u, 26u, 255u, 256u, 5000u, 0x110000u}) {
        const Drawn drawn = draw(builder, rows, longest, alphabet, ++seed);
        CHECK(read(drawn.tile) == drawn.expected);
        CHECK(drawn.tile.long_rows.empty());
        check_edit_tile(bytes_of(drawn.tile), sizes_of(drawn.tile));
      }
    }
  }
}

TEST_CASE("edit tile: symbols are as wide as there are code points") {
  EditTileBuilder builder;
  for (const std::uint32_t points : {1u, 255u, 256u, 65535u, 65536u}) {
    CodePoints text;
    Texts expected;
    for (std::uint32_t i = 0; i < points; ++i) {
      text.push_back(0x10ffff - 3 * i);
      if (text.size() < 4000 && i + 1 < points) continue;
      expected[builder.rows()] = text;
      builder.add_row(text);
      text.clear();
    }
    const EditTexts tile = builder.finish();
    CHECK(tile.width == (points <= 255 ? 1 : points <= 65535 ? 2 : 4));
    CHECK(tile.alphabet == (points <= 65535 ? points : 0));
    check_edit_tile(bytes_of(tile), sizes_of(tile));
    CHECK(read(tile) == expected);
  }
}

TEST_CASE("edit tile: texts that are too long are named, full tiles are sorted") {
  EditTileBuilder builder;
  const CodePoints longest(compute::kLongestEditText, 'x');
  CodePoints longer = longest;
  longer.push_back('y');
  for (std::uint32_t row = 0; row < compute::kTileRows; ++row) {
    if (row % 20000 == 7) {
      builder.add_row(longer);
    } else if (row == 9) {
      builder.add_row(longest);
    } else {
      builder.add_row(std::span(longest).first(row % 5));
    }
  }
  const EditTexts tile = builder.finish();
  CHECK(tile.long_rows == std::vector<std::uint32_t>{7, 20007, 40007, 60007});
  CHECK(tile.texts == compute::kTileRows - 4);
  CHECK(tile.alphabet == 1);
  check_edit_tile(bytes_of(tile), sizes_of(tile));
  const Texts texts = read(tile);
  CHECK(texts.at(9) == longest);
  CHECK(texts.at(65535).size() == 0);
  CHECK(texts.at(65534).size() == 4);
  CHECK(texts.count(20007) == 0);
}

TEST_CASE("edit tile: damaged bytes are refused, or do no harm") {
  EditTileBuilder builder;
  Random random(5);
  std::size_t refused = 0;
  for (const std::uint32_t alphabet : {20u, 2000u, 0x110000u}) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const bool wide = alphabet == 0x110000;
      const std::uint32_t rows = wide ? 2000 : 1 + static_cast<std::uint32_t>(random() % 90);
      const Drawn drawn = draw(builder, rows, wide ? 90 : 12, alphabet, seed);
      if (wide) CHECK(drawn.tile.width == 4);
      const EditTile tile = sizes_of(drawn.tile);
      const std::size_t size = drawn.tile.bytes.size();
      for (int round = 0; round < (wide ? 10 : 300); ++round) {
        Bytes bytes(size);
        std::memcpy(bytes.data(), drawn.tile.bytes.data(), size);
        for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
          const auto byte = static_cast<std::byte>(random() % 3 == 0 ? 0xff : random());
          bytes.data()[random() % size] = byte;
        }
        const bool safe = Reader(tile, bytes.data()).safe();
        const bool taken = accepted({bytes.data(), size}, tile);
        CHECK(taken == safe);
        refused += taken ? 0 : 1;
      }
    }
  }
  CHECK(refused > 2000);
}

TEST_CASE("edit tile: sizes that are not those of the bytes are refused") {
  EditTileBuilder builder;
  const Drawn drawn = draw(builder, 200, 9, 70, 9);
  const EditTile right = sizes_of(drawn.tile);
  const std::span<const std::byte> bytes = bytes_of(drawn.tile);
  CHECK(accepted(bytes, right));
  for (std::size_t size = 0; size < bytes.size(); size += 61) {
    CHECK_FALSE(accepted(bytes.first(size), right));
  }
  std::vector<EditTile> wrong(9, right);
  wrong[0].alphabet -= 1;
  wrong[1].alphabet = 256;
  wrong[2].texts -= 1;
  wrong[3].texts += 1;
  wrong[4].positions -= 1;
  wrong[5].positions += 64;
  wrong[6].width = 2;
  wrong[7].width = 3;
  wrong[8].rows = right.texts - 1;
  for (const EditTile& tile : wrong) CHECK_FALSE(accepted(bytes, tile));
  EditTile huge = right;
  huge.positions = huge.texts = huge.rows = 0xffffffffu;
  CHECK_FALSE(accepted(bytes, huge));
}

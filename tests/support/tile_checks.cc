#include "tests/support/tile_checks.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/bitmap.h"
#include "core/error.h"

namespace warplite::testing {
namespace {

using compute::EditLayout;
using compute::EditTile;
using compute::kEditGroup;
using compute::kLongestEditText;

constexpr std::uint32_t kLastPoint = 0x10ffff;

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorKind::kCorrupt, "tile: " + what);
}

// Neighbours that do not ascend. A loop that compilers turn into vectors.
std::size_t descents(const std::uint16_t* rows, std::size_t n) {
  std::size_t count = 0;
  for (std::size_t i = 1; i < n; ++i) count += rows[i] <= rows[i - 1] ? 1 : 0;
  return count;
}

void check_begins(const std::uint32_t* begins, std::uint32_t keywords, std::uint32_t postings) {
  if (begins[0] != 0) corrupt("the first list begins at " + std::to_string(begins[0]) + ", not 0");
  for (std::uint32_t i = 0; i < keywords; ++i) {
    if (begins[i] > begins[i + 1]) corrupt("list " + std::to_string(i) + " ends before it begins");
  }
  if (begins[keywords] != postings) {
    corrupt("lists end at " + std::to_string(begins[keywords]) + " of " +
            std::to_string(postings) + " postings");
  }
}

// REQUIRES: check_begins()
void check_rows(const std::uint16_t* postings, const std::uint32_t* begins,
                std::uint32_t keywords, std::uint32_t rows) {
  std::size_t between = 0;  // descents from one list to the next
  for (std::uint32_t i = 0; i < keywords; ++i) {
    const std::uint32_t begin = begins[i], end = begins[i + 1];
    if (begin == end) continue;
    if (begin != 0) between += postings[begin] <= postings[begin - 1] ? 1 : 0;
    if (postings[end - 1] >= rows) {
      corrupt("row " + std::to_string(postings[end - 1]) + " in list " + std::to_string(i) +
              " of a tile of " + std::to_string(rows) + " rows");
    }
  }
  if (descents(postings, begins[keywords]) != between) corrupt("rows of a list do not ascend");
}

std::uint32_t groups_of(std::uint32_t texts) { return (texts + kEditGroup - 1) / kEditGroup; }

// A tile's bytes, looked through part by part.
class Checker {
 public:
  Checker(std::span<const std::byte> bytes, const EditTile& tile)
      : tile_(tile), at_(EditLayout::of(tile.alphabet, tile.texts, tile.positions, tile.width)),
        bytes_(bytes.data()) {
    if (bytes.size() != at_.size) {
      corrupt("expected " + std::to_string(at_.size) + " bytes, found " +
              std::to_string(bytes.size()));
    }
  }

  void check() const {
    check_alphabet();
    check_texts();
    check_begins();
    if (tile_.width == 1) check_symbols<std::uint8_t>();
    if (tile_.width == 2) check_symbols<std::uint16_t>();
    if (tile_.width == 4) check_symbols<std::uint32_t>();
  }

 private:
  template <class T>
  const T* part(std::size_t begin) const {
    return reinterpret_cast<const T*>(bytes_ + begin);
  }
  const std::uint16_t* lengths() const { return part<std::uint16_t>(at_.lengths); }

  void check_alphabet() const {
    const auto* alphabet = part<std::uint32_t>(at_.alphabet);
    for (std::uint32_t i = 0; i < tile_.alphabet; ++i) {
      if (alphabet[i] > kLastPoint) corrupt("no code point at " + std::to_string(i));
      if (i > 0 && alphabet[i] <= alphabet[i - 1]) {
        corrupt("code points do not ascend at " + std::to_string(i));
      }
    }
  }

  void check_texts() const {
    const auto* rows = part<std::uint16_t>(at_.rows);
    Bitmap seen(compute::kTileRows);
    for (std::uint32_t i = 0; i < groups_of(tile_.texts) * kEditGroup; ++i) {
      const std::string text = "text " + std::to_string(i);
      if (i >= tile_.texts) {
        if (rows[i] != 0 || lengths()[i] != 0) corrupt(text + " past the last is one");
        continue;
      }
      if (rows[i] >= tile_.rows) {
        corrupt(text + " is of row " + std::to_string(rows[i]) + " of " +
                std::to_string(tile_.rows));
      }
      if (seen.test(rows[i])) corrupt(text + " is of a row that had one");
      seen.set(rows[i]);
      if (lengths()[i] > kLongestEditText) corrupt(text + " is too long");
      if (i > 0 && std::pair(lengths()[i], rows[i]) < std::pair(lengths()[i - 1], rows[i - 1])) {
        corrupt(text + " is out of order");
      }
    }
  }

  // REQUIRES: check_texts()
  void check_begins() const {
    const auto* begins = part<std::uint32_t>(at_.begins);
    std::uint32_t begin = 0;
    for (std::uint32_t group = 0;; ++group) {
      if (begins[group] != begin) {
        corrupt("group " + std::to_string(group) + " begins at " + std::to_string(begins[group]) +
                ", not at " + std::to_string(begin));
      }
      if (group == groups_of(tile_.texts)) break;
      begin += lengths()[std::min((group + 1) * kEditGroup, tile_.texts) - 1];
    }
    if (begin != tile_.positions) corrupt("has " + std::to_string(begin) + " positions");
  }

  // REQUIRES: check_begins()
  template <class Symbol>
  void check_symbols() const {
    constexpr Symbol kNone = std::numeric_limits<Symbol>::max();
    const std::uint32_t symbols = tile_.width == 4 ? kLastPoint + 1 : tile_.alphabet;
    const auto* begins = part<std::uint32_t>(at_.begins);
    const auto* place = part<Symbol>(at_.symbols);
    for (std::uint32_t group = 0; group < groups_of(tile_.texts); ++group) {
      const std::uint16_t* const length = lengths() + group * kEditGroup;
      for (std::uint32_t i = 0; i < begins[group + 1] - begins[group]; ++i) {
        for (std::uint32_t text = 0; text < kEditGroup; ++text, ++place) {
          if (i < length[text] ? *place >= symbols : *place != kNone) {
            corrupt("symbol " + std::to_string(*place) + " at position " + std::to_string(i) +
                    " of text " + std::to_string(group * kEditGroup + text));
          }
        }
      }
    }
  }

  const EditTile& tile_;
  const EditLayout at_;
  const std::byte* bytes_;
};

}  // namespace

void check_tile(std::span<const std::byte> bytes, std::uint32_t keywords, std::uint32_t postings,
                std::uint32_t rows) {
  if (rows > compute::kTileRows) corrupt(std::to_string(rows) + " rows in a tile");
  if (std::size_t{postings} > std::size_t{keywords} * rows) corrupt("more postings than fit");
  const compute::TileLayout at = compute::TileLayout::of(keywords, postings);
  if (bytes.size() != at.size) {
    corrupt("expected " + std::to_string(at.size) + " bytes, found " +
            std::to_string(bytes.size()));
  }
  const auto* keys = reinterpret_cast<const compute::Keyword*>(bytes.data() + at.keys);
  for (std::uint32_t i = 1; i < keywords; ++i) {
    if (keys[i] <= keys[i - 1]) corrupt("keywords do not ascend at " + std::to_string(i));
  }
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes.data() + at.begins);
  check_begins(begins, keywords, postings);
  check_rows(reinterpret_cast<const std::uint16_t*>(bytes.data() + at.rows), begins, keywords,
             rows);
}

void check_edit_tile(std::span<const std::byte> bytes, const EditTile& tile) {
  if (tile.rows > compute::kTileRows) corrupt(std::to_string(tile.rows) + " rows");
  if (tile.texts > tile.rows) corrupt("more texts than rows");
  if (tile.width != 1 && tile.width != 2 && tile.width != 4) {
    corrupt("symbols of " + std::to_string(tile.width) + " bytes");
  }
  if (tile.alphabet > (tile.width == 1 ? 0xffu : tile.width == 2 ? 0xffffu : 0u)) {
    corrupt(std::to_string(tile.alphabet) + " code points in " + std::to_string(tile.width) +
            " bytes");
  }
  Checker(bytes, tile).check();
}

}  // namespace warplite::testing

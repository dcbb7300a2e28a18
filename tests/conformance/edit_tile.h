// A tile of texts, as metric indexes of edit distance are made of, and texts to draw one from.
#pragma once

#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <vector>

#include "compute/device.h"
#include "core/utf8.h"
#include "index/tiles/edit_tile.h"

namespace warplite::testing::edit {

using namespace warplite::compute;

using Random = std::mt19937_64;
using Texts = std::vector<CodePoints>;

// A tile, and its texts by row.
struct Tile {
  Texts texts;
  std::shared_ptr<index::EditTexts> made;
  std::shared_ptr<const Buffer> buffer;
  std::vector<std::uint64_t> live;
  EditTile tile;

  explicit Tile(Texts of_rows) : texts(std::move(of_rows)) {
    index::EditTileBuilder builder;
    for (const CodePoints& text : texts) builder.add_row(text);
    made = std::make_shared<index::EditTexts>(builder.finish());
    tile.alphabet = made->alphabet;
    tile.texts = made->texts;
    tile.positions = made->positions;
    tile.width = made->width;
    tile.rows = tile.live_rows = made->rows;
    tile.rowids.first = 7;
    tile.host = made->bytes.data();
  }
  void kill(Random& random, std::uint64_t one_in) {
    live.assign(tile.rows / 64 + 1, 0);
    tile.live_rows = 0;
    for (std::uint32_t row = 0; row < tile.rows; ++row) {
      if (random() % one_in == 0) continue;
      live[row / 64] |= std::uint64_t{1} << (row % 64);
      ++tile.live_rows;
    }
    tile.live = live.data();
  }
  // Anew: without what a device has made of it.
  void place(Device& device) {
    REQUIRE(device.make_resident({made, made->bytes.data(), made->bytes.size()}, &buffer).ok());
    tile.bytes = buffer.get();
  }
};

inline CodePoints random_text(Random& random, std::size_t length, std::uint32_t alphabet) {
  CodePoints text(length);
  for (std::uint32_t& point : text) {
    const auto number = static_cast<std::uint32_t>(random() % alphabet);
    point = alphabet <= 26 ? 'a' + number : number * 15 + 1;
  }
  return text;
}

// Texts around a few others, so that there is something to pass over.
inline Texts some_texts(Random& random, std::size_t count, std::size_t longest, std::uint32_t alphabet) {
  Texts centres, texts;
  for (int i = 0; i < 12; ++i) {
    centres.push_back(random_text(random, random() % (longest + 1), alphabet));
  }
  while (texts.size() < count) {
    CodePoints text = centres[random() % centres.size()];
    for (std::size_t changes = random() % 4; changes > 0 && !text.empty(); --changes) {
      text[random() % text.size()] = random_text(random, 1, alphabet)[0];
      if (random() % 3 == 0) text.pop_back();
    }
    texts.push_back(text);
  }
  return texts;
}

inline std::vector<Texts> kinds_of_texts() {
  Random random(5);
  std::vector<Texts> kinds;
  kinds.push_back({});
  kinds.push_back({{'x'}});
  kinds.push_back(Texts(70));                       // empty ones
  kinds.push_back(Texts(100, CodePoints{1, 2, 3}));  // equal ones
  kinds.push_back(some_texts(random, 33, 10, 3));
  kinds.push_back(some_texts(random, 500, 14, 26));
  kinds.push_back(some_texts(random, 300, 40, 300));    // two bytes
  kinds.push_back(some_texts(random, 70, 700, 4));      // distances beyond a byte
  Texts wide = some_texts(random, 60, 20, 26);          // four bytes
  for (std::uint32_t row = 0; row < 17; ++row) {
    CodePoints& text = wide.emplace_back(kLongestEditText);
    for (std::uint32_t i = 0; i < kLongestEditText; ++i) text[i] = (row * kLongestEditText + i) * 15;
  }
  kinds.push_back(std::move(wide));
  return kinds;
}

}  // namespace warplite::testing::edit

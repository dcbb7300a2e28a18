// What conformance tests of tiles have in common: the rows of a tile, and that a search adds to what a
// table holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "compute/device.h"

namespace warplite::testing {

// The rowids of a tile's rows, and which of them live.
class TileRows {
 public:
  // Tile t of `tiles`, which interleave. `filter`: 0: none; n: about one row in n lives; −1: none
  // lives.
  TileRows(std::uint32_t rows, std::size_t t, std::size_t tiles, int filter,
           std::mt19937_64& random)
      : number_(t), rows_(rows), filtered_(filter != 0), live_(rows / 64 + 1) {
    for (std::uint32_t row = 0; row < rows; ++row) {
      rowids_.push_back(static_cast<RowId>(row * tiles + t) - 1000);
      if (filter < 0 || (filter > 0 && random() % static_cast<unsigned>(filter) != 0)) continue;
      live_[row / 64] |= std::uint64_t{1} << (row % 64);
      ++live_rows_;
    }
    if (t % 2 == 0) std::shuffle(rowids_.begin(), rowids_.end(), random);
  }

  // The tile points into this. Every third holds a run of rowids.
  template <class Tile>
  void describe(Tile& tile) const {
    tile.rows = rows_;
    tile.id = static_cast<std::uint32_t>(3 + 10 * number_);
    tile.rowids = number_ % 3 == 2 ? RowIdView{static_cast<RowId>(1000000 * number_), nullptr}
                                   : RowIdView{0, rowids_.data()};
    tile.live = filtered_ ? live_.data() : nullptr;
    tile.live_rows = live_rows_;
  }

 private:
  std::size_t number_;
  std::uint32_t rows_, live_rows_ = 0;
  bool filtered_;
  std::vector<RowId> rowids_;
  std::vector<std::uint64_t> live_;
};

// A search of the two nearest, of which the table of the first query holds one and one that is
// farther than all: search(best) puts the nearest row in its place.
template <class Search>
void expect_added(std::size_t queries, RowId nearest, const Search& search) {
  compute::HitTable best(queries, 2);
  const Hit near{-1e9, 4200, 7, 3}, far{1e300, 4300, 7, 4};
  for (const Hit& hit : {near, far}) best.row(0).push(hit);
  const Status status = search(best);
  REQUIRE_MESSAGE(status.ok(), status.message);
  REQUIRE(best.sorted(0).size() == 2);
  CHECK(best.sorted(0)[0].rowid == near.rowid);
  CHECK(best.sorted(0)[1].rowid == nearest);
}

}  // namespace warplite::testing

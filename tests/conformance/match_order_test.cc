// Match counts over tiles whose rowids ascend, from row to row and from tile to tile, all or some
// of them: where devices may let the order of rows decide between rows that count the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compute/device.h"
#include "index/tiles/postings.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::compute;
using warplite::testing::Candidate;
using warplite::testing::conformance_devices;
using warplite::testing::Restore;

namespace {

constexpr Keyword kKeywords = 20;

// kDescend: the tiles come in descending order of rowids. kUpdated: some tiles have rowids before
// and after all others, in order or not.
enum class Rowids { kRuns, kLists, kMixed, kDescend, kUpdated, kCount };

class Tiles {
 public:
  Tiles(const std::vector<std::uint32_t>& sizes, Rowids kind, unsigned one_lives,
        std::uint64_t seed)
      : random_(seed), data_(sizes.size()) {
    RowId next = -500;
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      const std::size_t at = kind == Rowids::kDescend ? sizes.size() - 1 - t : t;
      const bool list = kind == Rowids::kLists || (kind == Rowids::kMixed && t % 2 != 0);
      next = fill(data_[at], sizes[t], next, list, one_lives);
      if (kind == Rowids::kUpdated && t % 3 == 1) move(data_[at].rowids, sizes[t], t);
    }
    for (Data& data : data_) {
      MatchTile tile;
      tile.keywords = data.postings->keywords;
      tile.postings = data.postings->postings;
      tile.rows = data.postings->rows;
      tile.id = static_cast<std::uint32_t>(tiles_.size() + 5);
      tile.rowids = {data.first, data.rowids.empty() ? nullptr : data.rowids.data()};
      tile.live = one_lives == 1 ? nullptr : data.live.data();
      tile.live_rows = data.live_rows;
      tiles_.push_back(tile);
      bytes_.push_back(data.postings->bytes.data());
    }
  }

  // Queries of single keywords, of `weight` each, and of ranges.
  void ask(std::size_t queries, std::size_t items, std::uint32_t weight) {
    for (std::size_t q = 0; q < queries; ++q) {
      for (std::size_t i = 0; i < items; ++i) {
        const Keyword low = random_() % kKeywords;
        items_.push_back({low, low + (random_() % 9 == 0 ? random_() % 4 : 0), weight});
      }
      begins_.push_back(static_cast<std::uint32_t>(items_.size()));
    }
  }

  void check(std::size_t k, std::uint32_t least) {
    MatchWork work;
    work.tiles = tiles_;
    work.begins = begins_;
    work.items = items_;
    work.least = least;
    HitTable expected(work.queries(), k);
    reference_match(work, bytes_, expected);
    for (const Candidate& candidate : conformance_devices()) {
      INFO(candidate.name, " k ", k, " least ", least);
      candidate.prepare();
      if (!candidate.device->supports_match()) continue;
      place(*candidate.device);
      HitTable found(work.queries(), k);
      REQUIRE(candidate.device->match(work, found).ok());
      for (std::size_t q = 0; q < work.queries(); ++q) compare(expected.sorted(q), found.sorted(q));
    }
  }

 private:
  struct Data {
    std::shared_ptr<index::Postings> postings;
    std::shared_ptr<const Buffer> buffer;
    RowId first = 0;
    std::vector<RowId> rowids;
    std::vector<std::uint64_t> live;
    std::uint32_t live_rows = 0;
  };

  RowId fill(Data& data, std::uint32_t rows, RowId next, bool list, unsigned one_lives) {
    index::PostingsBuilder builder;
    data.first = next;
    data.live.resize(rows / 64 + 1);
    std::vector<Keyword> keywords;
    for (std::uint32_t row = 0; row < rows; ++row) {
      keywords.clear();
      for (Keyword key = 0; key < kKeywords; ++key) {
        if (random_() % (2 + key) == 0) keywords.push_back(key);
      }
      builder.add_row(keywords);
      if (list) data.rowids.push_back(next);
      next += list ? 1 + static_cast<RowId>(random_() % 3) : 1;
      if (random_() % one_lives != 0) continue;
      data.live[row / 64] |= std::uint64_t{1} << (row % 64);
      ++data.live_rows;
    }
    data.postings = std::make_shared<index::Postings>(builder.finish());
    return next;
  }

  void move(std::vector<RowId>& rowids, std::uint32_t rows, std::size_t tile) {
    constexpr RowId kFar = 10000000;
    rowids.clear();
    for (std::uint32_t row = 0; row < rows; ++row) {
      const auto next = static_cast<RowId>(row * data_.size() + tile);
      rowids.push_back(row < rows / 2 ? next - kFar : next + kFar);
    }
    if (tile % 2 == 0) std::shuffle(rowids.begin(), rowids.end(), random_);
  }

  void place(Device& device) {
    for (std::size_t t = 0; t < data_.size(); ++t) {
      const std::shared_ptr<index::Postings>& made = data_[t].postings;
      device.make_resident({made, made->bytes.data(), made->bytes.size()}, &data_[t].buffer)
          .raise();
      tiles_[t].bytes = data_[t].buffer.get();
    }
  }

  static void compare(std::span<const Hit> expected, std::span<const Hit> found) {
    REQUIRE(expected.size() == found.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      REQUIRE(expected[i].distance == found[i].distance);
      REQUIRE(expected[i].rowid == found[i].rowid);
      REQUIRE(expected[i].block == found[i].block);
      REQUIRE(expected[i].row == found[i].row);
    }
  }

  std::mt19937_64 random_;
  std::vector<Data> data_;
  std::vector<MatchTile> tiles_;
  std::vector<const std::byte*> bytes_;
  std::vector<std::uint32_t> begins_{0};
  std::vector<MatchItem> items_;
};

}  // namespace

TEST_CASE("match: rowids that ascend decide between ties") {
  const Restore restore;
  std::uint64_t seed = 1;
  for (int kind = 0; kind < static_cast<int>(Rowids::kCount); ++kind) {
    for (const unsigned one_lives : {1u, 4u}) {
      Tiles tiles({900, 700, 2300, 64, 700, 1}, static_cast<Rowids>(kind), one_lives, seed++);
      tiles.ask(6, 6, 1);
      for (const std::size_t k : {1, 5, 60, 700, 1100, 9000}) tiles.check(k, 1 + k % 3);
    }
  }
}

TEST_CASE("match: ties in full tiles, with counters of every width") {
  const Restore restore;
  // Six items of a keyword or four each.
  for (const std::uint32_t weight : {1u, 9u, 2000u, 70000u}) {
    const Rowids kind = weight == 1 ? Rowids::kUpdated : Rowids::kMixed;
    Tiles tiles({65536, 40000, 65536}, kind, weight == 9 ? 3 : 1, weight);
    tiles.ask(2, 6, weight);
    for (const std::size_t k : {3, 1000, 70000}) tiles.check(k, 1);
  }
}

TEST_CASE("match: more queries and more tiles than go at once") {
  const Restore restore;
  Tiles many_queries({70, 30}, Rowids::kRuns, 1, 7);
  many_queries.ask(20000, 2, 1);
  many_queries.check(3, 1);
  Tiles many_tiles(std::vector<std::uint32_t>(1300, 3), Rowids::kLists, 1, 8);
  many_tiles.ask(3, 5, 1);
  for (const std::size_t k : {2, 100, 5000}) many_tiles.check(k, 1);
}

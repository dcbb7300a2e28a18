// Match counts over columns of codes where rowids ascend, from row to row and from tile to tile,
// and many queries come at once: where devices may count for all of them together, and let the
// order of rows decide between those that count the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compute/device.h"
#include "core/bytes.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::compute;
using warplite::testing::Candidate;
using warplite::testing::conformance_devices;
using warplite::testing::expect_hits;
using warplite::testing::Restore;

namespace {

struct Case {
  std::vector<std::uint32_t> tile_rows;
  std::uint32_t columns = 14, codes = 30;  // codes: of the first column; others have others
  std::size_t queries = 100, items = 14;
  unsigned one_lives = 1;
  bool same_columns = true;  // every query asks something of the first columns
  bool other_weights = false;  // some queries have some
  std::uint32_t least = 1, most = 0xffffffffu;
  std::uint64_t seed = 1;
};

class World {
 public:
  explicit World(const Case& c) : case_(c), random_(c.seed), data_(c.tile_rows.size()) {
    RowId next = -500;
    for (std::size_t t = 0; t < data_.size(); ++t) next = fill(t, next);
    for (std::size_t t = 0; t < data_.size(); ++t) describe(t);
    ask();
  }

  // For each of `ks`, which ascend.
  void check(std::initializer_list<std::size_t> ks) {
    HitTable expected(case_.queries, *(ks.end() - 1));
    reference_match_codes(work_, host_columns_, expected);
    for (const std::size_t k : ks) check_first(k, expected);
  }

 private:
  void check_first(std::size_t k, HitTable& expected) {
    for (const Candidate& candidate : conformance_devices()) {
      INFO(candidate.name, " k ", k, " seed ", case_.seed);
      candidate.prepare();
      if (!candidate.device->supports_codes()) continue;
      place(*candidate.device);
      HitTable found(case_.queries, k);
      const Status status = candidate.device->match_codes(work_, found);
      REQUIRE_MESSAGE(status.ok(), status.message);
      for (std::size_t q = 0; q < case_.queries; ++q) {
        std::vector<Hit> first = expected.list(q);
        first.resize(std::min(first.size(), k));
        expect_hits(first, found.sorted(q), q);
      }
    }
  }

  struct Data {
    std::vector<std::shared_ptr<Bytes>> columns;
    std::vector<std::shared_ptr<const Buffer>> buffers;
    std::vector<const Buffer*> pointers;
    RowId first = 0;
    std::vector<RowId> rowids;
    std::vector<std::uint64_t> live;
    std::uint32_t live_rows = 0;
  };

  std::uint32_t codes_of(std::size_t column) const {
    return column % 3 == 0 ? case_.codes : column % 3 == 1 ? 3 : 65536;
  }

  RowId fill(std::size_t t, RowId next) {
    Data& data = data_[t];
    const std::uint32_t rows = case_.tile_rows[t];
    for (std::size_t i = 0; i < case_.columns; ++i) {
      data.columns.push_back(nullptr);
      if (t == 1 && i == 2) continue;
      data.columns.back() = std::make_shared<Bytes>(code_slots(rows) * sizeof(std::uint16_t));
      auto* const codes = reinterpret_cast<std::uint16_t*>(data.columns.back()->data());
      for (std::size_t row = 0; row < code_slots(rows); ++row) {
        codes[row] = static_cast<std::uint16_t>(random_() % codes_of(i));
      }
    }
    data.first = next;
    data.live.resize(rows / 64 + 1);
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (t % 2 != 0) data.rowids.push_back(next);
      next += t % 2 != 0 ? 1 + static_cast<RowId>(random_() % 3) : 1;
      if (random_() % case_.one_lives != 0) continue;
      data.live[row / 64] |= std::uint64_t{1} << (row % 64);
      ++data.live_rows;
    }
    return next;
  }

  void describe(std::size_t t) {
    Data& data = data_[t];
    CodeTile tile;
    data.pointers.assign(case_.columns, nullptr);
    tile.columns = data.pointers.data();
    tile.rows = case_.tile_rows[t];
    tile.id = static_cast<std::uint32_t>(t + 5);
    tile.rowids = {data.first, data.rowids.empty() ? nullptr : data.rowids.data()};
    tile.live = case_.one_lives == 1 ? nullptr : data.live.data();
    tile.live_rows = data.live_rows;
    tiles_.push_back(tile);
    for (const auto& column : data.columns) {
      host_columns_.push_back(
          column == nullptr ? nullptr : reinterpret_cast<const std::uint16_t*>(column->data()));
    }
  }

  CodeRange range(std::uint32_t codes) {
    const std::uint64_t kind = random_() % 16;
    if (kind == 0) return {};
    if (kind == 1) return {0, 0xffff};
    const auto low = static_cast<std::uint32_t>(random_() % codes);
    const std::uint32_t high = kind < 8 ? low : low + random_() % (codes / 2 + 1);
    return {static_cast<std::uint16_t>(low),
            static_cast<std::uint16_t>(std::min<std::uint32_t>(high, 0xffff))};
  }

  // Every 50th query has no items.
  void ask() {
    for (std::size_t q = 0; q < case_.queries; ++q) {
      const std::size_t n = q % 50 == 49 ? 0 : case_.items;
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t column = case_.same_columns ? i : random_();
        const bool heavy = case_.other_weights && q % 3 == 0;
        items_.push_back({static_cast<std::uint32_t>(column % case_.columns),
                          heavy ? static_cast<std::uint32_t>(random_() % 5) : 1});
      }
      begins_.push_back(static_cast<std::uint32_t>(items_.size()));
    }
    for (std::size_t t = 0; t < tiles_.size(); ++t) {
      for (const CodeItem& item : items_) ranges_.push_back(range(codes_of(item.column)));
    }
    work_.tiles = tiles_;
    work_.columns = case_.columns;
    work_.begins = begins_;
    work_.items = items_;
    work_.ranges = ranges_;
    work_.least = case_.least;
    work_.most = case_.most;
  }

  void place(Device& device) {
    for (Data& data : data_) {
      data.buffers.assign(case_.columns, nullptr);
      for (std::size_t i = 0; i < case_.columns; ++i) {
        const std::shared_ptr<Bytes>& bytes = data.columns[i];
        if (bytes == nullptr) continue;
        device.make_resident({bytes, bytes->data(), bytes->size()}, &data.buffers[i]).raise();
        data.pointers[i] = data.buffers[i].get();
      }
    }
  }

  const Case case_;
  std::mt19937_64 random_;
  std::vector<Data> data_;
  std::vector<CodeTile> tiles_;
  std::vector<const std::uint16_t*> host_columns_;
  std::vector<std::uint32_t> begins_{0};
  std::vector<CodeItem> items_;
  std::vector<CodeRange> ranges_;
  CodeWork work_;
};

}  // namespace

TEST_CASE("codes: many queries at once, and ties in the order of rows") {
  const Restore restore;
  std::uint64_t seed = 1;
  for (const std::size_t items : {1, 7, 8, 14, 20, 40, 63, 70}) {
    Case c;
    c.tile_rows = {5000, 700, 4096, 4097, 1};
    c.items = items;
    c.columns = static_cast<std::uint32_t>(items);
    c.queries = items <= 14 ? 90 : 66;
    c.one_lives = seed % 3 == 0 ? 4 : 1;
    c.seed = seed++;
    World world(c);
    world.check({1, 30, 5000});
  }
}

TEST_CASE("codes: many queries, several items on a column, bounds of counts, other weights") {
  const Restore restore;
  std::uint64_t seed = 100;
  for (const std::size_t items : {3, 9, 30}) {
    for (const std::uint32_t columns : {2u, 9u, 60u}) {
      Case c;
      c.tile_rows = {3000, 6000};
      c.items = items;
      c.columns = columns;
      c.queries = 150;
      c.same_columns = seed % 2 == 0;
      c.other_weights = seed % 3 != 0;
      c.one_lives = seed % 4 == 0 ? 50 : 1;
      c.least = 1 + seed % 3;
      if (seed % 2 == 0) c.most = static_cast<std::uint32_t>(items / 2);
      c.seed = seed++;
      World world(c);
      world.check({2, 100});
    }
  }
}

TEST_CASE("codes: more queries than go at once, full tiles, more tiles than go at once") {
  const Restore restore;
  Case many;
  many.tile_rows = {900, 300};
  many.columns = many.items = 5;
  many.queries = 2500;
  World(many).check({10});
  Case full;
  full.tile_rows = {65536, 40000, 65536};
  full.queries = 66;
  full.columns = full.items = 3;
  full.codes = 2;
  World(full).check({100});
  Case tiles;
  tiles.tile_rows.assign(90, 40);
  tiles.queries = 70;
  World(tiles).check({20});
}

#include <algorithm>
#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "compute/device.h"
#include "core/bytes.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"
#include "tests/support/conformance_tiles.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;

namespace {

using Random = std::mt19937_64;

// kAll: every query asks something of every column, in their order. kSome: of a few, in any order.
// kSameColumn: all items are on one column. kNone: nothing matches. kEverything: every row does.
enum class Items { kAll, kSome, kSameColumn, kNone, kEverything, kCount };
enum class Weights { kOne, kSmall, kHuge, kCount };

struct Case {
  Items items = Items::kAll;
  Weights weights = Weights::kOne;
  std::vector<std::uint32_t> tile_rows = {300};
  std::uint32_t columns = 14;
  std::size_t query_items = 14;  // of other queries than kAll
  std::uint32_t codes = 40;      // of a column, about
  int filter = 0;                // 0: none; n: about one row in n lives; −1: none lives
  std::size_t queries = 3, k = 10;
  std::uint32_t least = 1, most = 0xffffffffu;
  std::uint64_t seed = 1;
};

std::string describe(const Case& c) {
  std::ostringstream text;
  text << "items " << static_cast<int>(c.items) << " weights " << static_cast<int>(c.weights)
       << " tiles " << c.tile_rows.size() << " of " << c.tile_rows.front() << "… rows, columns "
       << c.columns << " items " << c.query_items << " codes " << c.codes << " filter " << c.filter
       << " queries " << c.queries << " k " << c.k << " least " << c.least << " most " << c.most
       << " seed " << c.seed;
  return text.str();
}

struct TileData {
  std::vector<std::shared_ptr<Bytes>> columns;  // null: there is none
  std::vector<std::shared_ptr<const Buffer>> buffers;
  std::vector<const Buffer*> pointers;
  TileRows rows;
};

class World {
 public:
  explicit World(const Case& c) : case_(c), random_(c.seed) {
    for (std::size_t t = 0; t < c.tile_rows.size(); ++t) make_tile(t);
    make_queries();
    HitTable best(c.queries, c.k);
    reference_match_codes(work_, host_columns_, best);
    for (std::size_t q = 0; q < c.queries; ++q) expected_.push_back(best.list(q));
  }

  // The work with everything resident. Valid until the next one.
  const CodeWork& work_on(Device& device) {
    for (TileData& data : data_) {
      data.buffers.assign(case_.columns, nullptr);
      for (std::size_t i = 0; i < case_.columns; ++i) {
        const std::shared_ptr<Bytes>& bytes = data.columns[i];
        if (bytes == nullptr) continue;
        const Status status =
            device.make_resident({bytes, bytes->data(), bytes->size()}, &data.buffers[i]);
        REQUIRE_MESSAGE(status.ok(), status.message);
        data.pointers[i] = data.buffers[i].get();
      }
    }
    return work_;
  }

  void check(const Candidate& candidate) {
    HitTable best(case_.queries, case_.k);
    const Status status = candidate.device->match_codes(work_on(*candidate.device), best);
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < case_.queries; ++q) expect_hits(expected_[q], best.sorted(q), q);
  }

  const std::vector<Hit>& expected(std::size_t query) const { return expected_[query]; }

 private:
  // Few codes are frequent, most are rare; the largest there are occur.
  std::uint16_t code() {
    const std::uint64_t n = random_();
    if (n % 50 == 0) return static_cast<std::uint16_t>(0xffff - random_() % 2);
    return static_cast<std::uint16_t>(random_() % (1 + (n >> 8) % case_.codes));
  }

  void make_tile(std::size_t t) {
    const std::uint32_t rows = case_.tile_rows[t];
    TileData& data = data_.emplace_back(
        TileData{{}, {}, std::vector<const Buffer*>(case_.columns),
                 TileRows(rows, t, case_.tile_rows.size(), case_.filter, random_)});
    for (std::uint32_t i = 0; i < case_.columns; ++i) {
      std::shared_ptr<Bytes> bytes;
      if (random_() % 16 != 0) {
        bytes = std::make_shared<Bytes>(code_slots(rows) * sizeof(std::uint16_t));
        auto* const codes = reinterpret_cast<std::uint16_t*>(bytes->data());
        for (std::size_t row = 0; row < code_slots(rows); ++row) codes[row] = code();
      }
      host_columns_.push_back(
          bytes == nullptr ? nullptr : reinterpret_cast<const std::uint16_t*>(bytes->data()));
      data.columns.push_back(std::move(bytes));
    }
    CodeTile tile;
    data.rows.describe(tile);
    tile.columns = data.pointers.data();
    tiles_.push_back(tile);
  }

  std::uint32_t weight() {
    switch (case_.weights) {
      case Weights::kOne: return 1;
      case Weights::kSmall: return static_cast<std::uint32_t>(random_() % 60);
      default: {
        const std::uint64_t most = 0x7fffffffu / std::max<std::size_t>(items_of_query(), 1);
        return static_cast<std::uint32_t>(random_() % 8 == 0 ? 1 : most - random_() % 3);
      }
    }
  }

  std::size_t items_of_query() const {
    return case_.items == Items::kAll ? case_.columns : case_.query_items;
  }

  CodeRange range() {
    if (case_.items == Items::kNone) return {};
    if (case_.items == Items::kEverything) return {0, 0xffff};
    if (random_() % 12 == 0) return {static_cast<std::uint16_t>(0xfffe), 0xffff};
    const auto low = static_cast<std::uint16_t>(random_() % case_.codes);
    if (random_() % 12 == 0) return {static_cast<std::uint16_t>(low + 1), low};
    if (random_() % 3 == 0) return {low, low};
    return {low, static_cast<std::uint16_t>(low + random_() % case_.codes / 2)};
  }

  // The second of several queries has no items.
  void make_queries() {
    begins_.push_back(0);
    for (std::size_t q = 0; q < case_.queries; ++q) {
      const std::size_t n = q == 1 ? 0 : items_of_query();
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t column = case_.items == Items::kAll          ? i
                                   : case_.items == Items::kSameColumn ? case_.columns / 2
                                                                       : random_();
        items_.push_back({static_cast<std::uint32_t>(column % case_.columns), weight()});
      }
      begins_.push_back(static_cast<std::uint32_t>(items_.size()));
    }
    for (std::size_t i = 0; i < tiles_.size() * items_.size(); ++i) ranges_.push_back(range());
    work_.tiles = tiles_;
    work_.columns = case_.columns;
    work_.begins = begins_;
    work_.items = items_;
    work_.ranges = ranges_;
    work_.least = case_.least;
    work_.most = case_.most;
  }

  const Case case_;
  Random random_;
  std::vector<TileData> data_;
  std::vector<CodeTile> tiles_;
  std::vector<const std::uint16_t*> host_columns_;
  std::vector<std::uint32_t> begins_;
  std::vector<CodeItem> items_;
  std::vector<CodeRange> ranges_;
  CodeWork work_;
  std::vector<std::vector<Hit>> expected_;
};

void check_everywhere(const Case& c) {
  World world(c);
  on_each_device(&Device::supports_codes, [&](const Candidate& candidate) { world.check(candidate); },
                 describe(c));
}

Case make_case(std::uint64_t n) {
  Case c;
  c.items = static_cast<Items>(n % static_cast<std::uint64_t>(Items::kCount));
  c.weights = static_cast<Weights>(n / 2 % static_cast<std::uint64_t>(Weights::kCount));
  c.tile_rows = turn<std::vector<std::uint32_t>>(
      {{300}, {1}, {511, 512, 513}, {0, 64, 0, 65}, {2000, 1}, {63}, {700, 700, 700, 700, 700}}, n);
  c.columns = turn<std::uint32_t>({14, 1, 3, 40}, n / 2);
  c.query_items = turn<std::size_t>({12, 1, 3, 70, 300}, n / 3);
  c.codes = turn<std::uint32_t>({40, 2, 1000, 60000}, n / 4);
  c.filter = turn<int>({0, 0, 2, 5, 0, 40, 1, -1}, n);
  c.queries = turn<std::size_t>({1, 2, 5, 33, 1, 70}, n);
  c.k = turn<std::size_t>({10, 1, 3, 100, 5000, 32}, n / 4);
  c.least = turn<std::uint32_t>({1, 1, 2, 1, 7, 200}, n / 5);
  c.most = turn<std::uint32_t>({0xffffffffu, 0xffffffffu, 3, 0xffffffffu, 100}, n / 3);
  c.seed = n + 1;
  if (c.query_items >= 70 && c.items != Items::kAll) c.queries = std::min<std::size_t>(c.queries, 5);
  return c;
}

}  // namespace

TEST_CASE("codes: every kind of items and weights gives the reference's hits") {
  const Restore restore;
  for (std::uint64_t n = 0; n < 240; ++n) check_everywhere(make_case(n));
}

TEST_CASE("codes: full tiles") {
  const Restore restore;
  std::uint64_t n = 1000;
  for (Items items : {Items::kAll, Items::kSome, Items::kEverything}) {
    for (std::size_t k : {1, 100, 3000, 70000, 200000}) {
      Case c = make_case(n++);
      c.items = items;
      c.tile_rows = {65536, 65535, 40};
      c.k = k;
      c.columns = 14;
      c.query_items = 20;
      c.queries = 2 + n % 2;
      c.weights = turn<Weights>({Weights::kOne, Weights::kSmall}, n);
      c.filter = turn<int>({0, 0, 3}, n / 2);
      c.least = 1;
      check_everywhere(c);
    }
  }
}

TEST_CASE("codes: counts at the limits of narrow counters") {
  const Restore restore;
  std::uint64_t n = 2000;
  for (std::size_t items : {7, 8, 15, 16, 17, 31, 32, 254, 255, 256, 300, 2000}) {
    for (Weights weights : {Weights::kOne, Weights::kSmall, Weights::kHuge}) {
      for (std::uint32_t most : {0xffffffffu, static_cast<std::uint32_t>(items) - 1}) {
        Case c;
        c.items = n % 2 == 0 ? Items::kEverything : Items::kSome;
        c.weights = weights;
        c.query_items = items;
        c.columns = 5;
        c.codes = 3;
        c.tile_rows = {600, 100};
        c.most = most;
        c.seed = n++;
        check_everywhere(c);
      }
    }
  }
}

TEST_CASE("codes: ties straddle the number of hits, over tiles that interleave") {
  const Restore restore;
  std::uint64_t n = 3000;
  for (std::size_t k : {1, 2, 7, 64, 65, 500, 1500}) {
    for (Items items : {Items::kEverything, Items::kSome}) {
      for (int filter : {0, 3}) {
        Case c;
        c.items = items;
        c.k = k;
        c.filter = filter;
        c.columns = 3;
        c.codes = 2;
        c.query_items = 4;
        c.tile_rows = {400, 400, 400, 0, 400};
        c.seed = n++;
        check_everywhere(c);
      }
    }
  }
}

TEST_CASE("codes: a search adds to what the table holds") {
  const Restore restore;
  Case c;
  c.queries = 2;
  c.k = 2;
  World world(c);
  REQUIRE(world.expected(0).size() == 2);
  on_each_device(&Device::supports_codes, [&](const Candidate& candidate) {
    expect_added(c.queries, world.expected(0)[0].rowid, [&](HitTable& best) {
      const Status status = candidate.device->match_codes(world.work_on(*candidate.device), best);
      CHECK(best.sorted(1).empty());
      return status;
    });
  });
}

TEST_CASE("codes: nothing to search") {
  const Restore restore;
  on_each_device(&Device::supports_codes, [&](const Candidate& candidate) {
    const std::vector<std::uint32_t> begins{0};
    CodeWork work;
    work.begins = begins;
    HitTable none(0, 5);
    CHECK(candidate.device->match_codes(work, none).ok());
    const std::vector<std::uint32_t> two{0, 1, 1};
    const CodeItem item{0, 1};
    work.begins = two;
    work.items = {&item, 1};
    work.columns = 1;
    HitTable best(2, 5);
    CHECK(candidate.device->match_codes(work, best).ok());
    CHECK(best.sorted(0).empty());
    HitTable no_hits(2, 0);
    CHECK(candidate.device->match_codes(work, no_hits).ok());
  });
}

TEST_CASE("codes: a cancelled search ends soon and says so") {
  const Restore restore;
  Case c;
  c.items = Items::kSome;
  c.tile_rows = {65536, 65536};
  c.queries = 1;
  World world(c);
  on_each_device(&Device::supports_codes, [&](const Candidate& candidate) {
    // Once as many queries, once as one of many items.
    for (const bool many : {true, false}) {
      CountingCancellation cancellation(candidate.asks);
      CodeWork work = world.work_on(*candidate.device);
      const std::vector<CodeItem> items(50000, CodeItem{0, 1});
      const std::vector<CodeRange> ranges(2 * items.size(), CodeRange{0, 20});
      std::vector<std::uint32_t> begins{0};
      if (many) {
        for (std::uint32_t i = 0; i < items.size(); ++i) begins.push_back(i + 1);
      } else {
        begins.push_back(static_cast<std::uint32_t>(items.size()));
      }
      work.items = items;
      work.ranges = ranges;
      work.begins = begins;
      work.cancellation = &cancellation;
      HitTable best(work.queries(), 10);
      expect_interrupted([&] { return candidate.device->match_codes(work, best); });
    }
  });
}

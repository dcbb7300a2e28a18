#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "compute/device.h"
#include "core/bytes.h"
#include "index/tiles/postings.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"
#include "tests/support/conformance_tiles.h"
#include "tests/support/long_run.h"
#include "tests/support/tile_checks.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;

namespace {

using Random = std::mt19937_64;

// kSkewed: few keywords are in most rows, most in few. kEven: a keyword of each of many functions
// in every row, as signatures have them. kOne: one keyword in all rows. kRare: postings are few.
// kFull: every keyword in every row.
enum class Data { kSkewed, kEven, kOne, kRare, kFull, kCount };

// kPoints: single keywords. kRanges: also long ones, such that meet nothing, and low > high.
// kOverlapping: ranges over each other, and keywords that come twice. kEverything: all keywords.
enum class Items { kPoints, kRanges, kOverlapping, kEverything, kCount };

enum class Weights { kOne, kSmall, kHuge, kCount };

// What a case is; everything is derived from it and the seed.
struct Case {
  Data data = Data::kSkewed;
  Items items = Items::kPoints;
  Weights weights = Weights::kOne;
  std::vector<std::uint32_t> tile_rows = {300};
  std::uint32_t keywords = 40;  // there are about so many
  std::size_t query_items = 12;
  int filter = 0;  // 0: none; n: about one row in n lives; −1: none lives
  std::size_t queries = 3, k = 10;
  std::uint32_t least = 1;
  std::uint64_t seed = 1;
};

std::string describe(const Case& c) {
  std::ostringstream text;
  text << "data " << static_cast<int>(c.data) << " items " << static_cast<int>(c.items)
       << " weights " << static_cast<int>(c.weights) << " tiles " << c.tile_rows.size() << " of "
       << c.tile_rows.front() << "… rows, keywords " << c.keywords << " of a query "
       << c.query_items << " filter " << c.filter << " queries " << c.queries << " k " << c.k
       << " least " << c.least << " seed " << c.seed;
  return text.str();
}

struct TileData {
  std::shared_ptr<index::Postings> postings;
  std::shared_ptr<const Buffer> buffer;
  TileRows rows;
};

class World {
 public:
  explicit World(const Case& c) : case_(c), random_(c.seed) {
    for (std::size_t t = 0; t < c.tile_rows.size(); ++t) make_tile(t);
    make_queries();
    HitTable best(c.queries, c.k);
    reference_match(work_, host_tiles_, best);
    for (std::size_t q = 0; q < c.queries; ++q) expected_.push_back(best.list(q));
  }

  void check(const Candidate& candidate) {
    HitTable best(case_.queries, case_.k);
    const Status status = candidate.device->match(work_on(*candidate.device), best);
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < case_.queries; ++q) expect_hits(expected_[q], best.sorted(q), q);
  }

  // The work with everything resident. Valid until the next one.
  const MatchWork& work_on(Device& device) {
    for (std::size_t t = 0; t < data_.size(); ++t) {
      const std::shared_ptr<index::Postings>& postings = data_[t].postings;
      const Status status =
          device.make_resident({postings, postings->bytes.data(), postings->bytes.size()},
                               &data_[t].buffer);
      REQUIRE_MESSAGE(status.ok(), status.message);
      tiles_[t].bytes = data_[t].buffer.get();
    }
    return work_;
  }

  const std::vector<Hit>& expected(std::size_t query) const { return expected_[query]; }

 private:
  // A keyword of the case, far from the next one.
  static Keyword keyword(std::uint64_t number) { return number * 0x0123456789abcdefu; }

  std::vector<Keyword> keywords_of_row() {
    std::vector<Keyword> all;
    switch (case_.data) {
      case Data::kSkewed:
        for (std::uint32_t i = 0; i < case_.keywords; ++i) {
          if (random_() % (1 + i * i / 8) == 0) all.push_back(keyword(i));
        }
        break;
      case Data::kEven:
        for (std::uint32_t i = 0; i + 4 <= case_.keywords; i += 4) {
          all.push_back(keyword(i + random_() % 4));
        }
        break;
      case Data::kOne: all.push_back(keyword(case_.keywords / 2)); break;
      case Data::kRare:
        if (random_() % 20 == 0) all.push_back(keyword(random_() % case_.keywords));
        break;
      default:
        for (std::uint32_t i = 0; i < case_.keywords; ++i) all.push_back(keyword(i));
    }
    std::shuffle(all.begin(), all.end(), random_);
    return all;
  }

  void make_tile(std::size_t t) {
    const std::uint32_t rows = case_.tile_rows[t];
    TileData& data = data_.emplace_back(TileData{
        nullptr, nullptr, TileRows(rows, t, case_.tile_rows.size(), case_.filter, random_)});
    index::PostingsBuilder builder;
    for (std::uint32_t row = 0; row < rows; ++row) builder.add_row(keywords_of_row());
    data.postings = std::make_shared<index::Postings>(builder.finish());
    const index::Postings& postings = *data.postings;
    check_tile({postings.bytes.data(), postings.bytes.size()}, postings.keywords, postings.postings,
               postings.rows);
    MatchTile tile;
    data.rows.describe(tile);
    tile.keywords = postings.keywords;
    tile.postings = postings.postings;
    tiles_.push_back(tile);
    host_tiles_.push_back(postings.bytes.data());
  }

  std::uint32_t weight() {
    switch (case_.weights) {
      case Weights::kOne: return 1;
      case Weights::kSmall: return static_cast<std::uint32_t>(random_() % 60);
      default: {
        // A row may meet every keyword of every item.
        const std::uint64_t most = 0x7fffffffu / (case_.query_items * case_.keywords * 2);
        return static_cast<std::uint32_t>(random_() % 8 == 0 ? 1 : most - random_() % 3);
      }
    }
  }

  MatchItem make_item(std::size_t i) {
    const std::uint64_t n = case_.keywords;
    const Keyword any = keyword(random_() % n);
    switch (case_.items) {
      case Items::kPoints:
        return random_() % 10 == 0 ? MatchItem{any + 1, any + 1, weight()}
                                   : MatchItem{any, any, weight()};
      case Items::kRanges:
        if (random_() % 6 == 0) return {any + 1, any, weight()};
        if (random_() % 6 == 0) return {any + 1, any + 2, weight()};
        return {any, any + keyword(random_() % 5), weight()};
      case Items::kOverlapping:
        return {keyword(i % 3), keyword(n / 2 + i % 5), weight()};
      default: return {0, ~Keyword{0}, weight()};
    }
  }

  // The second of several queries has no items.
  void make_queries() {
    begins_.push_back(0);
    for (std::size_t q = 0; q < case_.queries; ++q) {
      const std::size_t n = q == 1 ? 0 : case_.query_items;
      for (std::size_t i = 0; i < n; ++i) items_.push_back(make_item(i));
      begins_.push_back(static_cast<std::uint32_t>(items_.size()));
    }
    work_.tiles = tiles_;
    work_.begins = begins_;
    work_.items = items_;
    work_.least = case_.least;
  }

  const Case case_;
  Random random_;
  std::vector<TileData> data_;
  std::vector<MatchTile> tiles_;
  std::vector<const std::byte*> host_tiles_;
  std::vector<std::uint32_t> begins_;
  std::vector<MatchItem> items_;
  MatchWork work_;
  std::vector<std::vector<Hit>> expected_;
};

void check_everywhere(const Case& c) {
  World world(c);
  on_each_device(&Device::supports_match, [&](const Candidate& candidate) { world.check(candidate); },
                 describe(c));
}

Case make_case(std::uint64_t n) {
  Case c;
  c.data = static_cast<Data>(n % static_cast<std::uint64_t>(Data::kCount));
  c.items = static_cast<Items>(n / 2 % static_cast<std::uint64_t>(Items::kCount));
  c.weights = static_cast<Weights>(n / 3 % static_cast<std::uint64_t>(Weights::kCount));
  c.tile_rows = turn<std::vector<std::uint32_t>>(
      {{300}, {1}, {511, 512, 513}, {0, 64, 0, 65}, {2000, 1}, {63}, {700, 700, 700, 700, 700}}, n);
  c.keywords = turn<std::uint32_t>({40, 4, 12, 100, 300}, n / 2);
  c.query_items = turn<std::size_t>({12, 1, 3, 70, 30, 260}, n / 3);
  c.filter = turn<int>({0, 0, 2, 5, 0, 40, 1, -1}, n);
  c.queries = turn<std::size_t>({1, 2, 5, 33, 1, 70}, n);
  c.k = turn<std::size_t>({10, 1, 3, 100, 5000, 32}, n / 4);
  c.least = turn<std::uint32_t>({1, 1, 2, 1, 7, 200}, n / 5);
  c.seed = n + 1;
  // Counting has its price in the reference.
  if (c.items != Items::kPoints) c.query_items = std::min<std::size_t>(c.query_items, 30);
  if (c.query_items >= 30) c.queries = std::min<std::size_t>(c.queries, 3);
  if (c.keywords >= 100) c.queries = std::min<std::size_t>(c.queries, 5);
  return c;
}

}  // namespace

TEST_CASE("match: every kind of data, items and weights gives the reference's hits") {
  const Restore restore;
  for (std::uint64_t n = 0; n < 240; ++n) check_everywhere(make_case(n));
}

TEST_CASE("match: full tiles") {
  const Restore restore;
  std::uint64_t n = 1000;
  for (Data data : {Data::kSkewed, Data::kEven, Data::kOne, Data::kRare}) {
    for (std::size_t k : {1, 32, 3000, 70000, 200000}) {
      Case c = make_case(n++);
      c.data = data;
      c.tile_rows = {65536, 65535, 40};
      c.k = k;
      c.keywords = 24;
      c.query_items = 20;
      c.queries = 2 + n % 2;
      c.items = turn<Items>({Items::kPoints, Items::kPoints, Items::kRanges}, n);
      c.weights = turn<Weights>({Weights::kOne, Weights::kSmall}, n);
      c.filter = turn<int>({0, 0, 3}, n / 2);
      check_everywhere(c);
    }
  }
}

TEST_CASE("match: counts at the limits of narrow counters") {
  const Restore restore;
  std::uint64_t n = 2000;
  for (std::size_t items : {7, 8, 15, 16, 17, 254, 255, 256, 300, 511}) {
    for (Data data : {Data::kFull, Data::kOne, Data::kSkewed}) {
      Case c = make_case(n++);
      c.data = data;
      c.items = data == Data::kOne ? Items::kOverlapping : Items::kPoints;
      c.weights = Weights::kOne;
      c.query_items = items;
      c.keywords = 5;
      c.tile_rows = {600, 100};
      c.least = 1;
      c.filter = 0;
      check_everywhere(c);
    }
  }
  // Sums of about 65,535 and of about 2³¹.
  for (Weights weights : {Weights::kSmall, Weights::kHuge}) {
    for (std::size_t items : {1, 3, 2000}) {
      Case c = make_case(n++);
      c.data = Data::kFull;
      c.items = Items::kEverything;
      c.weights = weights;
      c.query_items = items;
      c.keywords = 2;
      c.tile_rows = {100};
      c.filter = 0;
      check_everywhere(c);
    }
  }
}

TEST_CASE("match: ties straddle the number of hits, over tiles that interleave") {
  const Restore restore;
  std::uint64_t n = 3000;
  for (std::size_t k : {1, 2, 7, 64, 65, 500}) {
    for (Data data : {Data::kOne, Data::kFull, Data::kEven}) {
      for (int filter : {0, 3}) {
        Case c = make_case(n++);
        c.data = data;
        c.k = k;
        c.filter = filter;
        c.items = Items::kPoints;
        c.weights = Weights::kOne;
        c.keywords = 8;
        c.query_items = 4;
        c.least = 1;
        c.tile_rows = {400, 400, 400, 0, 400};
        check_everywhere(c);
      }
    }
  }
}

TEST_CASE("match: many queries at once") {
  const Restore restore;
  std::uint64_t n = 4000;
  for (Data data : {Data::kSkewed, Data::kEven, Data::kOne, Data::kFull}) {
    for (Items items : {Items::kPoints, Items::kRanges, Items::kOverlapping}) {
      for (std::size_t k : {1, 20, 1000}) {
        Case c = make_case(n++);
        c.data = data;
        c.items = items;
        c.weights = turn<Weights>({Weights::kOne, Weights::kOne, Weights::kSmall}, n);
        c.tile_rows = turn<std::vector<std::uint32_t>>({{5000}, {1024, 2000}, {1500, 700, 4097}}, n);
        c.keywords = turn<std::uint32_t>({40, 300, 12}, n);
        c.query_items = turn<std::size_t>({20, 3, 40}, n / 2);
        c.queries = turn<std::size_t>({200, 64, 65, 520}, n / 3);
        c.filter = turn<int>({0, 3, 0, 50}, n);
        c.k = k;
        c.least = turn<std::uint32_t>({1, 1, 4}, n);
        if (due(n, 3)) check_everywhere(c);
      }
    }
  }
}

TEST_CASE("match: a search adds to what the table holds") {
  const Restore restore;
  Case c;
  c.queries = 2;
  c.k = 2;
  World world(c);
  REQUIRE(world.expected(0).size() == 2);
  on_each_device(&Device::supports_match, [&](const Candidate& candidate) {
    expect_added(c.queries, world.expected(0)[0].rowid, [&](HitTable& best) {
      const Status status = candidate.device->match(world.work_on(*candidate.device), best);
      CHECK(best.sorted(1).empty());
      return status;
    });
  });
}

TEST_CASE("match: nothing to search") {
  const Restore restore;
  on_each_device(&Device::supports_match, [&](const Candidate& candidate) {
    const std::vector<std::uint32_t> begins{0};
    MatchWork work;
    work.begins = begins;
    HitTable none(0, 5);
    CHECK(candidate.device->match(work, none).ok());
    const std::vector<std::uint32_t> two{0, 1, 1};
    const MatchItem item{0, ~Keyword{0}, 1};
    work.begins = two;
    work.items = {&item, 1};
    HitTable best(2, 5);
    CHECK(candidate.device->match(work, best).ok());
    CHECK(best.sorted(0).empty());
    HitTable no_hits(2, 0);
    CHECK(candidate.device->match(work, no_hits).ok());
  });
}

TEST_CASE("match: a cancelled search ends soon and says so") {
  const Restore restore;
  Case c;
  c.tile_rows = {65536};
  c.queries = 1;
  c.keywords = 24;
  c.items = Items::kRanges;
  World world(c);
  on_each_device(&Device::supports_match, [&](const Candidate& candidate) {
    // Once as many queries, once as one of many items.
    for (const bool many : {true, false}) {
      CountingCancellation cancellation(candidate.asks);
      MatchWork work = world.work_on(*candidate.device);
      std::vector<MatchItem> items;
      std::vector<std::uint32_t> begins{0};
      for (std::size_t i = 0; i < 50000; ++i) {
        items.push_back({0, ~Keyword{0}, 2});
        if (many) begins.push_back(static_cast<std::uint32_t>(items.size()));
      }
      if (!many) begins.push_back(static_cast<std::uint32_t>(items.size()));
      work.items = items;
      work.begins = begins;
      work.cancellation = &cancellation;
      HitTable best(work.queries(), 10);
      expect_interrupted([&] { return candidate.device->match(work, best); });
    }
  });
}

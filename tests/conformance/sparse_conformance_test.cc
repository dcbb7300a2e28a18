// Searches of sparse vectors on every device, by postings and row by row, beside the plain
// definition.
#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "compute/device.h"
#include "compute/metric.h"
#include "compute/sparse/postings.h"
#include "core/bytes.h"
#include "index/tiles/sparse_postings.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"
#include "tests/support/conformance_tiles.h"
#include "tests/support/long_run.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;

namespace {

using Random = std::mt19937_64;
using Entries = std::vector<SparseEntry>;

// kWeights: as of words. kSigned: of either sign. kWhole: small whole numbers, so that sums tie.
// kWide: of all sizes that there are, zeros included. kTiny: subnormal.
enum class Values { kWeights, kSigned, kWhole, kWide, kTiny, kCount };

struct Case {
  Values values = Values::kWeights;
  std::vector<std::uint32_t> tile_rows = {700};
  std::uint32_t terms = 60;
  bool far = true;                  // as many rare ones, of large indexes
  std::size_t row_entries = 20, query_entries = 8;
  int filter = 0;                   // as TileRows takes it
  int without_postings = 0;         // 0: no tile; n: every n-th
  std::size_t queries = 3, k = 10;
  double low = -std::numeric_limits<double>::infinity();
  std::uint64_t seed = 1;
};

std::string describe(const Case& c) {
  std::ostringstream text;
  text << "values " << static_cast<int>(c.values) << " tiles " << c.tile_rows.size() << " of "
       << c.tile_rows.front() << "… rows, terms " << c.terms << " far " << c.far << " of a row " << c.row_entries
       << " of a query " << c.query_entries << " filter " << c.filter << " without postings "
       << c.without_postings << " queries " << c.queries << " k " << c.k << " low " << c.low
       << " seed " << c.seed;
  return text.str();
}

// The definition: products by ascending index.
double distance_of(const Entries& x, const Entries& y) {
  double sum = 0;
  for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (x[i].index == y[j].index) {
      sum += static_cast<double>(x[i++].value) * static_cast<double>(y[j++].value);
    } else {
      ++(x[i].index < y[j].index ? i : j);
    }
  }
  return sum == 0 ? 0 : -sum;
}

struct TileData {
  explicit TileData(TileRows of_rows) : rows(std::move(of_rows)) {}

  TileRows rows;
  Column values{PlainType::kSparse};
  std::vector<Entries> entries;  // of rows that are not NULL; those have none
  std::vector<bool> null;
  std::shared_ptr<const Bytes> postings;
  std::shared_ptr<const Buffer> buffer;
};

class World {
 public:
  explicit World(const Case& c) : case_(c), random_(c.seed) {
    for (std::size_t t = 0; t < c.tile_rows.size(); ++t) make_tile(t);
    for (std::size_t t = 0; t < data_.size(); ++t) {
      tiles_[t].values = &data_[t]->values;
      data_[t]->rows.describe(tiles_[t]);
    }
    for (std::size_t q = 0; q < c.queries; ++q) make_query();
    work_.tiles = tiles_;
    work_.queries = queries_;
    work_.range.low = c.low;
    compute_all();
  }

  void check(const Candidate& candidate) {
    place(*candidate.device);
    work_.range.high = std::numeric_limits<double>::infinity();
    HitTable best(case_.queries, case_.k);
    const Status status = candidate.device->sparse_nearest(work_, best);
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < case_.queries; ++q) {
      std::vector<Hit> expected = within(q);
      expected.resize(std::min(case_.k, expected.size()));
      expect_hits(expected, best.sorted(q), q);
    }
    check_ranges(*candidate.device);
  }

  const SparseWork& work_on(Device& device) {
    place(device);
    return work_;
  }

 private:
  std::uint32_t some_index() {
    if (case_.far && random_() % 4 == 0) return 1000000 + static_cast<std::uint32_t>(random_() % case_.terms) * 2000;
    const double skewed = std::pow(static_cast<double>(random_() % 1000) / 1000, 3);
    return static_cast<std::uint32_t>(skewed * case_.terms);
  }

  float some_value() {
    const double real = std::normal_distribution<>()(random_);
    switch (case_.values) {
      case Values::kWeights: return static_cast<float>(std::exp(real));
      case Values::kSigned: return static_cast<float>(real);
      case Values::kWhole: return static_cast<float>(random_() % 3) - (random_() % 8 == 0 ? 2.0f : 0.0f);
      case Values::kWide:
        return static_cast<float>(std::ldexp(real, static_cast<int>(random_() % 240) - 120)) *
               static_cast<float>(random_() % 5 != 0);
      default: return static_cast<float>(real) * 1e-44f;
    }
  }

  Entries some_entries(std::size_t most) {
    std::map<std::uint32_t, float> entries;
    const std::size_t count = random_() % 9 == 0 ? 0 : 1 + random_() % most;
    for (std::size_t i = 0; i < count; ++i) entries[some_index()] = some_value();
    Entries all;
    for (const auto& [index, value] : entries) all.push_back({index, value});
    return all;
  }

  void make_tile(std::size_t t) {
    const std::uint32_t rows = case_.tile_rows[t];
    auto& tile = *data_.emplace_back(std::make_unique<TileData>(
        TileRows(rows, t, case_.tile_rows.size(), case_.filter, random_)));
    std::string bytes;
    for (std::uint32_t row = 0; row < rows; ++row) {
      tile.null.push_back(random_() % 17 == 0);
      tile.entries.push_back(some_entries(case_.row_entries));
      bytes.clear();
      append_sparse(tile.entries.back(), bytes);
      REQUIRE(sparse_fault(bytes, kMostSparseDim) == nullptr);
      tile.values.append(tile.null.back() ? Cell::null() : Cell::blob(bytes));
    }
    const bool without = case_.without_postings != 0 &&
                         t % static_cast<std::size_t>(case_.without_postings) == 0;
    if (!without) {
      tile.postings =
          std::make_shared<const Bytes>(index::make_sparse_postings(tile.values, [] {}));
    }
    tiles_.emplace_back();
  }

  void make_query() {
    entries_.push_back(some_entries(case_.query_entries));
    std::string bytes;
    append_sparse(entries_.back(), bytes);
    queries_.emplace_back(bytes.data());
  }

  void compute_all() {
    for (const Entries& query : entries_) {
      std::vector<Hit>& hits = all_.emplace_back();
      for (std::size_t t = 0; t < data_.size(); ++t) {
        for (std::uint32_t row = 0; row < tiles_[t].rows; ++row) {
          const bool live = tiles_[t].live == nullptr || (tiles_[t].live[row / 64] >> row % 64 & 1);
          if (!live || data_[t]->null[row]) continue;
          hits.push_back({distance_of(query, data_[t]->entries[row]), tiles_[t].rowids[row],
                          tiles_[t].id, row});
        }
      }
      std::sort(hits.begin(), hits.end());
    }
  }

  std::vector<Hit> within(std::size_t q) const {
    std::vector<Hit> hits;
    std::copy_if(all_[q].begin(), all_[q].end(), std::back_inserter(hits),
                 [&](const Hit& hit) { return work_.range.contains(hit.distance); });
    return hits;
  }

  // Bounded by distances that occur, and by 0.
  void check_ranges(Device& device) {
    for (int i = 0; i < 3; ++i) {
      const std::vector<Hit>& hits = all_[random_() % all_.size()];
      work_.range.high = i == 0 || hits.empty() ? 0 : hits[random_() % hits.size()].distance;
      work_.range.high_open = i == 1;
      HitLists found(case_.queries);
      const Status status = device.sparse_within(work_, found);
      REQUIRE_MESSAGE(status.ok(), status.message);
      for (std::size_t q = 0; q < case_.queries; ++q) {
        std::sort(found[q].begin(), found[q].end());
        expect_hits(within(q), found[q], q);
      }
    }
    work_.range.high_open = false;
  }

  void place(Device& device) {
    for (std::size_t t = 0; t < data_.size(); ++t) {
      if (data_[t]->postings == nullptr) continue;
      const auto& postings = data_[t]->postings;
      const Status status = device.make_resident({postings, postings->data(), postings->size()},
                                                 &data_[t]->buffer);
      REQUIRE_MESSAGE(status.ok(), status.message);
      tiles_[t].postings = data_[t]->buffer.get();
    }
  }

  const Case case_;
  Random random_;
  std::vector<std::unique_ptr<TileData>> data_;
  std::vector<SparseTile> tiles_;
  std::vector<Entries> entries_;  // of queries
  std::vector<SparseQuery> queries_;
  std::vector<std::vector<Hit>> all_;  // by query, in order
  SparseWork work_;
};

void check(const Case& c) {
  const Restore restore;
  World world(c);
  on_each_device(&Device::supports_sparse,
                 [&](const Candidate& candidate) { world.check(candidate); }, describe(c));
}

Case random_case(std::uint64_t seed) {
  Random random(seed);
  Case c;
  c.seed = seed;
  c.values = static_cast<Values>(random() % static_cast<unsigned>(Values::kCount));
  c.tile_rows.clear();
  for (std::uint64_t i = 0; i <= random() % 4; ++i) {
    c.tile_rows.push_back(turn<std::uint32_t>({1, 63, 255, 256, 257, 600, 1500}, random()));
  }
  c.terms = turn<std::uint32_t>({2, 30, 200, 5000}, random());
  c.row_entries = turn<std::size_t>({1, 6, 40}, random());
  c.query_entries = turn<std::size_t>({1, 5, 40, 700}, random());
  c.filter = turn({0, 0, 2, 5, -1}, random());
  c.without_postings = turn({0, 0, 1, 2}, random());
  c.queries = turn<std::size_t>({1, 2, 7}, random());
  c.k = turn<std::size_t>({1, 3, 10, 100, 5000}, random());
  if (random() % 6 == 0) c.low = -2;
  c.far = random() % 2 == 0;
  return c;
}

}  // namespace

TEST_CASE("sparse searches find what the definition says, whatever the data") {
  const std::uint64_t cases = long_run() ? 600 : 60;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) check(random_case(seed));
}

TEST_CASE("sparse searches of tiles of all rows that they hold") {
  Case c;
  c.tile_rows = {kSparseRows, 3000};
  c.queries = 2;
  for (const Values values : {Values::kWeights, Values::kSigned, Values::kWhole}) {
    c.values = values;
    check(c);
  }
}

TEST_CASE("sparse searches of many tiles for many queries") {
  Case c;
  c.tile_rows = std::vector<std::uint32_t>(40, 64);
  c.queries = 150;
  check(c);
}

TEST_CASE("sparse searches for a query of many terms") {
  Case c;
  c.tile_rows = {3000, 300};
  c.terms = 40000;
  c.row_entries = 200;
  c.query_entries = 30000;
  c.queries = 2;
  for (const Values values : {Values::kWeights, Values::kSigned}) {
    c.values = values;
    check(c);
  }
}

TEST_CASE("sparse searches add to what a table holds, and end when they are asked to") {
  const Restore restore;
  Case c;
  c.tile_rows = {5000, 5000};
  c.without_postings = 2;
  c.queries = 100;  // enough that every thread asks
  World world(c);
  on_each_device(&Device::supports_sparse, [&](const Candidate& candidate) {
    SparseWork work = world.work_on(*candidate.device);
    HitTable one(c.queries, 1);
    REQUIRE(candidate.device->sparse_nearest(work, one).ok());
    expect_added(c.queries, one.sorted(0)[0].rowid, [&](HitTable& best) {
      return candidate.device->sparse_nearest(work, best);
    });
    CountingCancellation cancellation(0);
    work.cancellation = &cancellation;
    expect_interrupted([&] {
      HitTable best(c.queries, 1);
      return candidate.device->sparse_nearest(work, best);
    });
  });
}

TEST_CASE("sparse searches by postings compare few rows") {
  const Restore restore;
  Case c;
  c.tile_rows = {20000};
  c.row_entries = 60;
  World world(c);
  on_each_device(&Device::supports_sparse, [&](const Candidate& candidate) {
    SparseWork work = world.work_on(*candidate.device);
    SearchCounters counters;
    work.counters = &counters;
    HitTable best(c.queries, 3);
    REQUIRE(candidate.device->sparse_nearest(work, best).ok());
    CHECK(counters.indexed == 20000 * c.queries);
    CHECK(counters.distances < 1000 * c.queries);
  });
}

TEST_CASE("bytes that are no sparse vector are told") {
  std::string bytes;
  const SparseEntry entries[] = {{0, 1}, {300, -2}, {kMostSparseDim - 1, 3}};
  append_sparse(entries, bytes);
  CHECK(sparse_fault(bytes, kMostSparseDim) == nullptr);
  CHECK(sparse_fault(bytes, kMostSparseDim - 1) != nullptr);
  SparseReader reader(bytes.data());
  for (const SparseEntry& entry : entries) {
    const SparseEntry next = reader.next();
    CHECK(next.index == entry.index);
    CHECK(next.value == entry.value);
  }
  CHECK(reader.left() == 0);
  CHECK(reader.end() == bytes.data() + bytes.size());
  CHECK(sparse_fault("", 10) != nullptr);
  CHECK(sparse_fault(std::string_view("\0\0\0\0\0\0\0\0", 8), 10) == nullptr);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(sparse_fault(bytes.substr(0, size), kMostSparseDim) != nullptr);
  }
  CHECK(sparse_fault(bytes + '\0', kMostSparseDim) != nullptr);
  Random random(5);
  for (int i = 0; i < 100000; ++i) {  // whatever is taken can be read
    std::string some = bytes;
    for (std::uint64_t n = 0; n <= random() % 3; ++n) {
      some[random() % some.size()] = static_cast<char>(random());
    }
    if (sparse_fault(some, 1000) != nullptr) continue;
    std::uint32_t before = 0;
    SparseReader changed(some.data());
    for (bool first = true; changed.left() != 0; first = false) {
      const SparseEntry entry = changed.next();
      REQUIRE(entry.index < 1000);
      REQUIRE((first || entry.index > before));
      before = entry.index;
    }
    REQUIRE(changed.end() == some.data() + some.size());
  }
}

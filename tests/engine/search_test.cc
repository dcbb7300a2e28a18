// Searches of a collection against brute force over its view, under any memory budget, and
// the cache of decoded blocks on its own.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "compute/device.h"
#include "compute/reference.h"
#include "engine/filter/filter.h"
#include "engine/search/search.h"
#include "tests/support/engine_fixture.h"

namespace warplite::engine {
namespace {

constexpr std::uint32_t kDim = 24;

// Restores the cache's limit.
class LimitGuard {
 public:
  explicit LimitGuard(std::size_t bytes) { Residency::instance().set_limit(bytes); }
  ~LimitGuard() { Residency::instance().set_limit(0); }
};

// A table of vectors in segments, a tail and pending rows, with deletions and NULLs.
class Vectors {
 public:
  explicit Vectors(unsigned seed) : random_(seed) {
    options_.layout.vectors = {{ElementType::kFloat32, kDim}};
    options_.layout.plains = {PlainType::kInteger};
    options_.plain_names = {"n"};
    options_.vectors = {{"v", Distance::kL2, {}}};
    options_.layout.segment_rows = 64;
    options_.tail_rows = 32;
    db_.run("BEGIN");
    table_ = Collection::create(db_.get(), "main", "t", options_);
    table_->begin();
    insert(500);
    table_->sync();
    insert(20);
    table_->sync();
    insert(100);
    for (int i = 0; i < 150; ++i) table_->erase(static_cast<RowId>(random_() % 620 + 1));
  }
  ~Vectors() {
    db_.run("ROLLBACK");
    table_->rollback();
  }

  Collection& table() { return *table_; }

  std::vector<float> random_vector() {
    std::vector<float> vector(kDim);
    for (float& x : vector) x = static_cast<float>(random_() % 5);
    return vector;
  }

  // All hits of one query among the selected rows, in order.
  std::vector<Hit> brute_force(const View& view, const Selection& selection,
                               const std::vector<float>& query) const {
    std::vector<Hit> hits;
    for (std::uint32_t i = 0; i < view.parts(); ++i) {
      const Selection::Rows& rows = selection.part(i);
      for (std::uint32_t row = 0; rows.count != 0 && row < view.part(i).rows(); ++row) {
        if (!rows.all && !rows.bits.test(row)) continue;
        const Value vector = view.vector({i, row}, 0);
        if (vector.is_null()) continue;
        const double distance = compute::canonical_distance(
            Distance::kL2, ElementType::kFloat32, kDim,
            reinterpret_cast<const std::byte*>(query.data()),
            reinterpret_cast<const std::byte*>(vector.cell().bytes.data()));
        hits.push_back({distance, view.rowid({i, row}), i, row});
      }
    }
    std::sort(hits.begin(), hits.end());
    return hits;
  }

 private:
  void insert(int count) {
    for (int i = 0; i < count; ++i) {
      const std::vector<float> vector = random_vector();
      const Cell bytes = Cell::blob({reinterpret_cast<const char*>(vector.data()), kDim * 4});
      const Cell cell = random_() % 9 == 0 ? Cell::null() : bytes;
      const Cell number = Cell::of(static_cast<std::int64_t>(random_() % 10));
      NewRow row;
      row.vectors = &cell;
      row.plains = &number;
      table_->insert(row, OnConflict::kAbort);
    }
  }

  std::mt19937 random_;
  Database db_;
  TableOptions options_;
  std::shared_ptr<Collection> table_;
};

SearchRequest request_for(const std::vector<float>& query) {
  SearchRequest request;
  request.queries = {reinterpret_cast<const std::byte*>(query.data()), 1, kDim,
                     ElementType::kFloat32};
  return request;
}

void check_same(std::span<const Hit> got, std::vector<Hit> expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i].distance == expected[i].distance);
    CHECK(got[i].rowid == expected[i].rowid);
    CHECK(got[i].block == expected[i].block);
    CHECK(got[i].row == expected[i].row);
  }
}

TEST_CASE("searches return what brute force over the view returns") {
  std::size_t limit = 0;
  SUBCASE("with room for everything") {}
  SUBCASE("in groups of parts") {
    limit = 64 * kDim * 4 * 5 / 2;
  }
  SUBCASE("part by part") {
    limit = 1;
  }
  const LimitGuard guard(limit);
  for (unsigned seed = 1; seed <= 4; ++seed) {
    Vectors vectors(seed);
    const auto view = vectors.table().view();
    Predicate predicate;
    predicate.column = 0;
    predicate.op = Comparison::kLess;
    for (std::int64_t bound : {20, 5, 1, 0}) {
      predicate.operands = {Value(Cell::of(bound))};
      const Selection selection(*view, {predicate});
      const std::vector<float> query = vectors.random_vector();
      const SearchRequest request = request_for(query);
      const std::vector<Hit> all = vectors.brute_force(*view, selection, query);
      for (std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{100000}}) {
        auto found = nearest(*view, selection, vectors.table().index(0), request, k);
        std::vector<Hit> expected = all;
        expected.resize(std::min(k, all.size()));
        check_same(found.sorted(0), expected);
      }
      if (all.empty()) continue;
      SearchRequest ranged = request;
      ranged.range.high = all[all.size() / 2].distance;
      auto lists = within(*view, selection, vectors.table().index(0), ranged);
      std::sort(lists[0].begin(), lists[0].end());
      std::vector<Hit> expected;
      for (const Hit& hit : all) {
        if (hit.distance <= ranged.range.high) expected.push_back(hit);
      }
      check_same(lists[0], expected);
      SearchRequest after = request;
      after.has_after = true;
      after.after_distance = all[all.size() / 3].distance;
      after.after_rowid = all[all.size() / 3].rowid;
      auto rest = nearest(*view, selection, vectors.table().index(0), after, 100000);
      check_same(rest.sorted(0),
                 {all.begin() + static_cast<std::ptrdiff_t>(all.size() / 3) + 1, all.end()});
    }
  }
}

TEST_CASE("memory stays near the limit while a larger column is searched") {
  Vectors vectors(3);
  Residency& residency = Residency::instance();
  residency.clear();
  const std::size_t segment = 64 * kDim * 4;
  const LimitGuard guard(3 * segment);
  const auto view = vectors.table().view();
  const Selection selection(*view, {});
  const std::vector<float> query = vectors.random_vector();
  nearest(*view, selection, vectors.table().index(0), request_for(query), 3);
  CHECK(residency.used() <= 4 * segment);
  CHECK(residency.used() > 0);
  std::string in_use;
  for (const Residency::Entry& entry : residency.entries()) {
    if (entry.in_use) in_use += entry.owner + "; ";
  }
  INFO("in use: ", in_use);
  CHECK(residency.would_fit(segment));
  CHECK_FALSE(residency.would_fit(4 * segment));
}

TEST_CASE("an unknown device is refused by name") {
  Vectors vectors(4);
  const auto view = vectors.table().view();
  const std::vector<float> query = vectors.random_vector();
  SearchRequest request = request_for(query);
  request.device = "abacus";
  CHECK_THROWS_AS(nearest(*view, Selection(*view, {}), vectors.table().index(0), request, 1),
                  Error);
  CHECK_THROWS_AS(set_default_device("abacus"), Error);
  const std::string before = default_device();
  set_default_device("cpu");
  CHECK(default_device() == "cpu");
  set_default_device(before);
}

Column column_of(std::int64_t value) {
  Column column(PlainType::kInteger);
  for (int i = 0; i < 1000; ++i) column.append(Cell::of(value));
  return column;
}

TEST_CASE("the cache keeps what is used, and evicts the least recently used first") {
  Residency& residency = Residency::instance();
  residency.clear();
  const std::size_t before = residency.used();
  const std::size_t size = column_of(0).memory();
  const LimitGuard guard(before + 3 * size + size / 2);
  std::vector<CacheKey> keys;
  while (keys.size() < 5) keys.push_back(KeyWriter().add(new_stamp()).key());
  int loads = 0;
  const auto get = [&](std::size_t i) {
    return residency.column(keys[i], "test", [&] {
      ++loads;
      return column_of(static_cast<std::int64_t>(i));
    });
  };
  const auto held = get(0);
  get(1);
  get(2);
  CHECK(loads == 3);
  get(1);
  get(3);  // evicts 2: 0 is held, 1 was used since
  CHECK(loads == 4);
  get(1);
  get(0);
  get(3);
  CHECK(loads == 4);
  get(2);
  CHECK(loads == 5);
  CHECK(held->integers()[0] == 0);
  CHECK(residency.used() <= before + 4 * size);
  residency.clear();
  CHECK(residency.used() == before + size);  // what is held stays
}

TEST_CASE("threads share the cache") {
  Residency& residency = Residency::instance();
  const LimitGuard guard(residency.used() + 20 * column_of(0).memory());
  std::vector<CacheKey> keys;
  while (keys.size() < 50) keys.push_back(KeyWriter().add(new_stamp()).key());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 3000; ++i) {
        const std::size_t at = random() % keys.size();
        const auto column = residency.column(
            keys[at], "test", [&] { return column_of(static_cast<std::int64_t>(at)); });
        wrong += column->integers()[random() % 1000] != static_cast<std::int64_t>(at);
        if (i % 100 == 0) residency.entries();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace warplite::engine

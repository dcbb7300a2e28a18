// When metric indexes are made: by what they would take and what searches compare, with builders
// that count what they build and say themselves what it costs. No clocks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "compute/policy/metric_ledger.h"
#include "core/utf8.h"
#include "cpu/cpu_device.h"
#include "index/metric/list_of_clusters.h"
#include "index/metric/metric_index.h"
#include "index/metric/text_metric.h"
#include "index/tiles/edit_tile.h"
#include "tests/support/sql_session.h"

using namespace warplite;
using namespace warplite::compute;

namespace {

class Stop : public Cancellation {
 public:
  bool requested() override { return true; }
};

// Costs so many distances.
class PricedTexts : public TextMetricBuilder {
 public:
  double cost(std::size_t) const override { return price; }
  std::shared_ptr<const TextMetric> build(Device& host, const EditTile& tile,
                                          const std::byte* bytes,
                                          Cancellation* cancellation) const override {
    ++built;
    return builder_->build(host, tile, bytes, cancellation);
  }
  double price = 0;
  mutable int built = 0;

 private:
  const std::unique_ptr<TextMetricBuilder> builder_ = index::make_text_clusters(32);
};

class PricedVectors : public VectorMetricBuilder {
 public:
  MetricSpace space() const override { return MetricSpace::kL2; }
  double cost(std::size_t) const override { return price; }
  std::shared_ptr<const VectorMetric> build(Device& host, MatrixView rows,
                                            Cancellation* cancellation) const override {
    ++built;
    return builder().build(host, rows, cancellation);
  }
  double price = 0;
  mutable int built = 0;

 private:
  const VectorMetricBuilder& builder() const {
    return static_cast<const index::MetricIndex&>(*index_).builder();
  }
  const std::unique_ptr<index::Index> index_ = index::list_of_clusters_kind().make(
      {"list_of_clusters", {}}, {ElementType::kFloat32, 2, Distance::kL2});
};

// Tiles of 640 texts of ten letters; queries like them.
struct TextSearch {
  static constexpr std::uint32_t kTexts = 640;
  static constexpr std::uint32_t kLength = 10;
  std::unique_ptr<Device> cpu = cpu::make_cpu_device();
  std::shared_ptr<index::EditTexts> made;
  std::vector<std::shared_ptr<const Buffer>> buffers;
  std::vector<EditTile> tiles;
  PricedTexts builder;
  SearchCounters counters;

  explicit TextSearch(std::size_t count, std::uint32_t length = kLength) : buffers(count) {
    index::EditTileBuilder texts;
    for (std::uint32_t row = 0; row < kTexts; ++row) {
      CodePoints text(length, 'a');
      for (std::uint32_t i = 0, left = row; i < 10; ++i, left /= 3) text[i] += left % 3;
      texts.add_row(text);
    }
    made = std::make_shared<index::EditTexts>(texts.finish());
    for (auto& buffer : buffers) {
      REQUIRE(cpu->make_resident({made, made->bytes.data(), made->bytes.size()}, &buffer).ok());
      EditTile& tile = tiles.emplace_back();
      tile.bytes = buffer.get();
      tile.host = made->bytes.data();
      tile.alphabet = made->alphabet;
      tile.texts = made->texts;
      tile.positions = made->positions;
      tile.width = made->width;
      tile.rows = tile.live_rows = made->rows;
      tile.id = static_cast<std::uint32_t>(tiles.size());
    }
  }
  Status run(std::size_t queries, std::size_t length = kLength, Cancellation* stop = nullptr) {
    const std::vector<std::uint32_t> points(queries * length, 'a');
    std::vector<std::uint32_t> begins;
    for (std::size_t q = 0; q <= queries; ++q) {
      begins.push_back(static_cast<std::uint32_t>(q * length));
    }
    EditWork work;
    work.tiles = tiles;
    work.begins = begins;
    work.points = points;
    work.range.high = 1;
    work.metric = &builder;
    work.counters = &counters;
    work.cancellation = stop;
    HitLists found(queries);
    return cpu->edit_within(work, found);
  }
};

// A block of vectors of two coordinates.
struct VectorSearch {
  static constexpr std::uint32_t kRows = 16384;
  std::unique_ptr<Device> cpu = cpu::make_cpu_device();
  std::shared_ptr<std::vector<float>> rows = std::make_shared<std::vector<float>>(kRows * 2);
  std::shared_ptr<const Buffer> buffer;
  std::vector<std::uint64_t> live = std::vector<std::uint64_t>(kRows / 64);
  PricedVectors builder;
  SearchCounters counters;
  Block block;

  VectorSearch() {
    static const testing::SqlSession session(":memory:");  // registers the device builders ask
    for (std::uint32_t i = 0; i < kRows; ++i) {
      (*rows)[2 * i] = static_cast<float>(i % 128);
      (*rows)[2 * i + 1] = static_cast<float>(i / 128);
    }
    const auto* const bytes = reinterpret_cast<const std::byte*>(rows->data());
    REQUIRE(cpu->make_resident({rows, bytes, rows->size() * sizeof(float)}, &buffer).ok());
    block.vectors = buffer.get();
    block.host = bytes;
    block.rows = kRows;
  }
  // Of the first `selected` rows.
  void run(std::size_t queries, std::uint32_t selected) {
    for (std::uint32_t i = 0; i < kRows / 64; ++i) {
      const std::uint32_t some = std::min(64u, selected - std::min(selected, i * 64));
      live[i] = some == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << some) - 1;
    }
    block.live = live.data();
    block.live_rows = selected;
    const std::vector<float> points(queries * 2, 3.0f);
    Workload work;
    work.distance = Distance::kL2;
    work.queries = {reinterpret_cast<const std::byte*>(points.data()), queries, 2,
                    ElementType::kFloat32};
    work.blocks = std::span(&block, 1);
    work.range.high = 1;
    work.metric = &builder;
    work.counters = &counters;
    HitLists found(queries);
    REQUIRE(cpu->within(work, found).ok());
    for (const auto& hits : found) {
      CHECK(hits.size() == (selected > 515 ? 5 : 0));  // the farthest of them is row 515
    }
  }
};

}  // namespace

TEST_CASE("metric ledger: at once, by what is spent, and after it was given up") {
  MissingMetric missing;
  missing.making = 100;
  missing.comparing = 40;
  MetricLedger ledger;
  CHECK_FALSE(ledger.worth_making(missing, false));
  CHECK_FALSE(ledger.worth_making(missing, false));
  CHECK(ledger.worth_making(missing, false));
  ledger.given_up();
  for (int i = 0; i < 9; ++i) CHECK_FALSE(ledger.worth_making(missing, true));
  CHECK(ledger.worth_making(missing, true));
  CHECK(MetricLedger().worth_making(missing, true));
}

TEST_CASE("metric ledger: an index of texts that takes long waits for as many comparisons") {
  TextSearch search(1);
  search.builder.price = 2e8;  // two seconds of words
  REQUIRE(search.run(1).ok());
  CHECK(search.builder.built == 0);
  search.builder.price = 1e6;
  REQUIRE(search.run(1).ok());
  CHECK(search.builder.built == 1);
  CHECK(search.counters.indexed == TextSearch::kTexts);
  TextSearch batch(1);
  batch.builder.price = 2e8;
  REQUIRE(batch.run(100).ok());
  CHECK(batch.builder.built == 0);
  batch.builder.price = TextSearch::kTexts * 200.0;
  for (EditTile& tile : batch.tiles) tile.live_rows = TextSearch::kTexts / 20;  // never at once
  REQUIRE(batch.run(1000).ok());
  CHECK(batch.builder.built == 1);
}

TEST_CASE("metric ledger: texts weigh by their lengths, and queries by theirs") {
  // The same number of distances: little between words, much between texts of 600.
  TextSearch words(1), texts(1, 600);
  words.builder.price = texts.builder.price = 3e6;
  REQUIRE(words.run(1).ok());
  REQUIRE(texts.run(1, 600).ok());
  CHECK(words.builder.built == 1);
  CHECK(texts.builder.built == 0);
  // As many comparisons as making takes distances, with texts as long; short ones take less.
  TextSearch same(1, 600), shorter(1, 600);
  same.builder.price = shorter.builder.price = 3e5;
  REQUIRE(shorter.run(469, 10).ok());
  CHECK(shorter.builder.built == 0);
  REQUIRE(same.run(469, 600).ok());
  CHECK(same.builder.built == 1);
}

TEST_CASE("metric ledger: the indexes of all tiles together take little, or wait") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{12}}) {
    TextSearch search(count);
    search.builder.price = 1e7;  // a tenth of a second each
    REQUIRE(search.run(1).ok());
    CHECK(search.builder.built == (count == 1 ? 1 : 0));
  }
}

TEST_CASE("metric ledger: what was interrupted is not begun anew by the next search") {
  TextSearch search(1);
  search.builder.price = 1e6;
  Stop stop;
  CHECK(search.run(1, TextSearch::kLength, &stop).kind == ErrorKind::kInterrupted);
  const int begun = search.builder.built;
  REQUIRE(search.run(1).ok());
  CHECK(search.builder.built == begun);
  search.builder.price = TextSearch::kTexts;  // which a few queries compare
  REQUIRE(search.run(5).ok());
  CHECK(search.builder.built == begun + 1);
}

TEST_CASE("metric ledger: a search of a few rows makes no index, and does without the one there is") {
  VectorSearch search;
  search.builder.price = 1e6;
  search.run(1, 1);
  search.run(1, VectorSearch::kRows / 16 - 1);
  CHECK(search.builder.built == 0);
  search.run(1, VectorSearch::kRows);
  CHECK(search.builder.built == 1);
  CHECK(search.counters.indexed == VectorSearch::kRows);
  search.run(1, 100);  // fewer than there are clusters
  CHECK(search.counters.indexed == VectorSearch::kRows);
  VectorSearch dear;
  dear.builder.price = 2e8;
  dear.run(1, VectorSearch::kRows);
  CHECK(dear.builder.built == 0);
}

TEST_CASE("metric ledger: clusters of rows that are mostly alike") {
  static const testing::SqlSession session(":memory:");
  for (const int values : {1, 3, 5000}) {
    std::vector<float> rows(5000);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i * 7919 % values);
    const auto made = index::list_of_clusters_kind().make(
        {"list_of_clusters", {{"size", "20"}}}, {ElementType::kFloat32, 1, Distance::kL2});
    const auto cpu = cpu::make_cpu_device();
    const auto metric = static_cast<const index::MetricIndex&>(*made).builder().build(
        *cpu, {reinterpret_cast<const std::byte*>(rows.data()), rows.size(), 1,
               ElementType::kFloat32}, nullptr);
    const VectorClusters& clusters = *metric->clusters;
    REQUIRE(clusters.count == 250);
    std::vector<char> taken(rows.size());
    for (std::uint32_t c = 0; c < clusters.count; ++c) {
      const std::size_t begin = std::size_t{clusters.begins[c]} * kMetricGroup;
      const float centre = rows[clusters.rows[begin]];
      std::vector<float> distances;
      for (std::size_t i = begin; i < begin + 20; ++i) {
        REQUIRE(taken[clusters.rows[i]] == 0);
        taken[clusters.rows[i]] = 1;
        distances.push_back(std::abs(rows[clusters.rows[i]] - centre));
        CHECK(clusters.rings[i] == distances.back());
      }
      CHECK(std::is_sorted(distances.begin(), distances.end()));
      CHECK(clusters.cover[c] == distances.back());
      float least = std::numeric_limits<float>::infinity();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (taken[i] == 0) least = std::min(least, std::abs(rows[i] - centre));
      }
      CHECK(clusters.inner[c] == least);
      CHECK(least >= distances.back());
    }
  }
}

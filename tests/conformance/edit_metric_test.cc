#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "compute/device.h"
#include "core/utf8.h"
#include "cpu/cpu_device.h"
#include "index/metric/text_metric.h"
#include "index/tiles/edit_tile.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_devices.h"
#include "tests/support/data_files.h"

using namespace warplite;
using namespace warplite::compute;
using warplite::testing::Candidate;
using warplite::testing::conformance_devices;
using warplite::testing::Restore;

namespace {

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

struct Queries {
  std::vector<std::uint32_t> begins{0}, points;

  explicit Queries(const Texts& texts) {
    for (const CodePoints& text : texts) {
      points.insert(points.end(), text.begin(), text.end());
      begins.push_back(static_cast<std::uint32_t>(points.size()));
    }
  }
  EditWork work(const Tile& tile, const TextMetricBuilder* metric) const {
    EditWork work;
    work.tiles = std::span(&tile.tile, 1);
    work.begins = begins;
    work.points = points;
    work.metric = metric;
    return work;
  }
};

CodePoints random_text(Random& random, std::size_t length, std::uint32_t alphabet) {
  CodePoints text(length);
  for (std::uint32_t& point : text) {
    const auto number = static_cast<std::uint32_t>(random() % alphabet);
    point = alphabet <= 26 ? 'a' + number : number * 15 + 1;
  }
  return text;
}

// Texts around a few others, so that there is something to pass over.
Texts some_texts(Random& random, std::size_t count, std::size_t longest, std::uint32_t alphabet) {
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

std::size_t distance_of(const CodePoints& a, const CodePoints& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

// The text at a place of an index, by characters.
CodePoints text_at(const Tile& tile, const MetricTexts& texts, std::size_t place) {
  const auto* alphabet = reinterpret_cast<const std::uint32_t*>(tile.made->bytes.data());
  const std::uint32_t width = tile.tile.width;
  const std::byte* const group = texts.group(place / kEditGroup, width);
  CodePoints out;
  for (std::size_t i = 0; i < texts.lengths[place]; ++i) {
    const std::size_t at = i * kEditGroup + place % kEditGroup;
    if (width == 1) out.push_back(alphabet[reinterpret_cast<const std::uint8_t*>(group)[at]]);
    if (width == 2) out.push_back(alphabet[reinterpret_cast<const std::uint16_t*>(group)[at]]);
    if (width == 4) out.push_back(reinterpret_cast<const std::uint32_t*>(group)[at]);
  }
  return out;
}

// Distances between rows of a tile, each computed once for all indexes of it.
class RowDistances {
 public:
  explicit RowDistances(const Tile& tile)
      : texts_(tile.texts), known_(texts_.size() * texts_.size(), kUnknown) {}

  std::size_t operator()(std::size_t a, std::size_t b) {
    std::size_t& known = known_[std::min(a, b) * texts_.size() + std::max(a, b)];
    if (known == kUnknown) known = distance_of(texts_[a], texts_[b]);
    return known;
  }
  // A row that has this text.
  std::size_t row_of(const CodePoints& text) const {
    const auto found = std::find(texts_.begin(), texts_.end(), text);
    REQUIRE(found != texts_.end());
    return static_cast<std::size_t>(found - texts_.begin());
  }

 private:
  static constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);
  const Texts& texts_;
  std::vector<std::size_t> known_;
};

void check_clusters(const Tile& tile, RowDistances& distances, std::uint32_t size) {
  const auto cpu = cpu::make_cpu_device();
  const auto metric =
      index::make_text_clusters(size)->build(*cpu, tile.tile, tile.tile.host, nullptr);
  REQUIRE(metric->clusters != nullptr);
  REQUIRE(metric->pivots == nullptr);
  const TextClusters& clusters = *metric->clusters;
  const std::size_t count = tile.texts.size();
  REQUIRE(clusters.count == (count + size - 1) / size);
  REQUIRE(clusters.begins.size() == clusters.count + 1);
  REQUIRE(clusters.inner.size() == clusters.count);
  std::vector<std::size_t> sums(count);
  std::vector<char> seen(count);
  std::size_t left = count;
  for (std::uint32_t c = 0; c < clusters.count; ++c) {
    const CodePoints centre = text_at(tile, clusters.centres, c);
    const std::size_t first = std::size_t{clusters.begins[c]} * kEditGroup;
    std::size_t farthest_sum = 0, members = 0, nearest_left = MetricTexts::kNoText;
    for (std::size_t row = 0; row < count; ++row) {
      if (!seen[row]) farthest_sum = std::max(farthest_sum, sums[row]);
    }
    if (c == 0) CHECK(clusters.rows[first] == 0);
    const std::size_t centre_row = clusters.rows[first];
    CHECK(sums[centre_row] == farthest_sum);
    REQUIRE(centre == tile.texts[centre_row]);
    CHECK(text_at(tile, clusters.members, first) == centre);
    std::uint16_t before = 0;
    for (std::size_t at = first; at < clusters.begins[c + 1] * kEditGroup; ++at) {
      if (clusters.members.lengths[at] == MetricTexts::kNoText) continue;
      ++members;
      const std::uint16_t row = clusters.rows[at];
      REQUIRE_FALSE(seen[row]);
      seen[row] = 1;
      REQUIRE(text_at(tile, clusters.members, at) == tile.texts[row]);
      CHECK(clusters.rings[at] == distances(centre_row, row));
      CHECK(clusters.rings[at] >= before);
      before = clusters.rings[at];
    }
    CHECK(members == std::min<std::size_t>(size, left));
    left -= members;
    CHECK(clusters.cover[c] == before);
    for (std::size_t row = 0; row < count; ++row) {
      if (seen[row]) continue;
      const std::size_t distance = distances(centre_row, row);
      sums[row] += distance;
      nearest_left = std::min(nearest_left, distance);
    }
    CHECK(clusters.inner[c] == nearest_left);
    CHECK(clusters.inner[c] >= clusters.cover[c]);
  }
  CHECK(left == 0);
}

void check_pivots(const Tile& tile, RowDistances& distances, double alpha) {
  const auto cpu = cpu::make_cpu_device();
  const auto metric =
      index::make_text_pivots(alpha)->build(*cpu, tile.tile, tile.tile.host, nullptr);
  REQUIRE(metric->pivots != nullptr);
  REQUIRE(metric->clusters == nullptr);
  const TextPivots& pivots = *metric->pivots;
  const std::size_t places = pivots.rows.size();
  REQUIRE(places == pivots.members.lengths.size());
  REQUIRE(pivots.table.size() == pivots.count * places);
  std::vector<std::size_t> rows;  // of the pivots
  for (std::uint32_t p = 0; p < pivots.count; ++p) {
    rows.push_back(distances.row_of(text_at(tile, pivots.pivots, p)));
  }
  std::vector<char> seen(tile.texts.size());
  for (std::size_t at = 0; at < places; ++at) {
    if (pivots.members.lengths[at] == MetricTexts::kNoText) continue;
    const CodePoints text = text_at(tile, pivots.members, at);
    REQUIRE_FALSE(seen[pivots.rows[at]]);
    seen[pivots.rows[at]] = 1;
    REQUIRE(text == tile.texts[pivots.rows[at]]);
    for (std::uint32_t p = 0; p < pivots.count; ++p) {
      const std::size_t distance = distances(rows[p], pivots.rows[at]);
      CHECK(pivots.table[p * places + at] ==
            std::min<std::size_t>(distance, TextPivots::kFarthest));
    }
  }
  CHECK(std::count(seen.begin(), seen.end(), 0) == 0);
  if (tile.texts.empty()) return;
  CHECK(text_at(tile, pivots.pivots, 0) == tile.texts[0]);
  CHECK(pivots.count <= 64);
  // The largest distance is at least that from the first row, and twice that at most.
  std::size_t reach = 0;
  for (std::size_t row = 0; row < tile.texts.size(); ++row) {
    reach = std::max(reach, distances(0, row));
  }
  const double least = std::max(1.0, alpha * static_cast<double>(reach));
  for (std::uint32_t p = 0; p < pivots.count; ++p) {
    for (std::uint32_t other = 0; other < p; ++other) {
      CHECK(static_cast<double>(distances(rows[p], rows[other])) >= least);
    }
  }
  if (pivots.count == 64) return;
  for (std::size_t row = 0; row < tile.texts.size(); ++row) {
    std::size_t nearest = 100000;
    for (const std::size_t pivot : rows) nearest = std::min(nearest, distances(pivot, row));
    CHECK(static_cast<double>(nearest) < std::max(1.0, alpha * 2 * static_cast<double>(reach)));
  }
}

std::vector<Texts> kinds_of_texts() {
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

std::vector<Hit> sorted(std::vector<Hit> hits) {
  std::sort(hits.begin(), hits.end());
  return hits;
}

void expect_same(std::span<const Hit> expected, std::span<const Hit> found) {
  REQUIRE(expected.size() == found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    REQUIRE(std::tuple(expected[i].distance, expected[i].rowid, expected[i].row) ==
            std::tuple(found[i].distance, found[i].rowid, found[i].row));
  }
}

// Counts what it builds.
class CountingBuilder : public TextMetricBuilder {
 public:
  explicit CountingBuilder(std::unique_ptr<TextMetricBuilder> builder)
      : builder_(std::move(builder)) {}
  double cost(std::size_t) const override { return 0; }  // worth it for any search
  std::shared_ptr<const TextMetric> build(Device& host, const EditTile& tile,
                                          const std::byte* bytes,
                                          Cancellation* cancellation) const override {
    ++built;
    return builder_->build(host, tile, bytes, cancellation);
  }
  mutable std::atomic<int> built{0};

 private:
  const std::unique_ptr<TextMetricBuilder> builder_;
};

class Asked : public Cancellation {
 public:
  explicit Asked(int allowed) : allowed_(allowed) {}
  bool requested() override { return ++asked_ > allowed_; }

 private:
  int allowed_;
  int asked_ = 0;
};

// Few queries are answered sooner by comparing all, on a GPU that is not told otherwise.
bool prefers_brute_force(const Candidate& candidate) {
  const char* const metric = std::getenv("WARPLITE_GPU_METRIC");
  return candidate.name.starts_with("gpu") && (metric == nullptr || metric != std::string("always"));
}

}  // namespace

TEST_CASE("edit metric: distances of a text to groups are those of the scalar device") {
  const Restore restore;
  for (Texts& texts : kinds_of_texts()) {
    if (texts.empty()) continue;
    const Tile tile(std::move(texts));
    const auto cpu = cpu::make_cpu_device();
    const auto metric =
        index::make_text_clusters(20)->build(*cpu, tile.tile, tile.tile.host, nullptr);
    const MetricTexts& members = metric->clusters->members;
    for (const std::size_t row : {std::size_t{0}, tile.texts.size() / 2}) {
      std::vector<std::uint32_t> text = tile.texts[row];
      const auto* alphabet = reinterpret_cast<const std::uint32_t*>(tile.made->bytes.data());
      for (std::uint32_t& point : text) {
        if (metric->width == 4) continue;
        point = static_cast<std::uint32_t>(
            std::lower_bound(alphabet, alphabet + tile.tile.alphabet, point) - alphabet);
      }
      std::vector<std::uint16_t> expected(members.lengths.size());
      cpu->Device::text_distances(text, members, metric->width, expected.data());
      for (const Candidate& candidate : conformance_devices()) {
        candidate.prepare();
        std::vector<std::uint16_t> found(members.lengths.size());
        candidate.device->text_distances(text, members, metric->width, found.data());
        for (std::size_t i = 0; i < found.size(); ++i) {
          if (members.lengths[i] != MetricTexts::kNoText) REQUIRE(found[i] == expected[i]);
        }
      }
    }
  }
}

TEST_CASE("edit metric: clusters and pivots are what they say") {
  const Restore restore;
  for (Texts& texts : kinds_of_texts()) {
    const Tile tile(std::move(texts));
    RowDistances distances(tile);
    const bool slow = tile.made->positions > 1000;
    for (const std::uint32_t size : {1u, 31u, 32u, 33u, 100u, 70000u}) {
      if (!slow || size == 31) check_clusters(tile, distances, size);
    }
    for (const double alpha : {0.1, 0.4, 1.0}) {
      if (!slow || alpha == 0.4) check_pivots(tile, distances, alpha);
    }
  }
}

TEST_CASE("edit metric: every radius and every k gives the reference's hits") {
  const Restore restore;
  Random random(11);
  for (Texts& texts : kinds_of_texts()) {
    Texts asked = some_texts(random, 3, 12, 26);
    if (!texts.empty()) asked.push_back(texts[texts.size() / 2]);
    asked.push_back({});
    Tile tile(std::move(texts));
    if (tile.texts.size() > 100) tile.kill(random, 3);
    const Queries queries(asked);
    EditWork work = queries.work(tile, nullptr);
    HitLists all(asked.size());
    const std::byte* const bytes[] = {tile.tile.host};
    reference_edit_within(work, bytes, all);
    const std::unique_ptr<TextMetricBuilder> builders[] = {
        index::make_text_clusters(5), index::make_text_clusters(32), index::make_text_pivots(0.4)};
    const bool slow = tile.made->positions > 1000;
    for (std::size_t c = 0; c < conformance_devices().size(); c += slow ? 6 : 1) {
      const Candidate& candidate = conformance_devices()[c];
      if (!candidate.device->supports_edit()) continue;
      candidate.prepare();
      for (const auto& builder : builders) {
        tile.place(*candidate.device);
        work.metric = builder.get();
        std::size_t turn = 0;
        for (const double radius : {0.0, 1.0, 2.0, 4.0, 9.0, 300.0, 1e9}) {
          const std::size_t k = std::vector<std::size_t>{1, 7, 1000}[turn++ % 3];
          INFO(candidate.name, " radius ", radius, " k ", k);
          work.range.high = radius;
          HitTable best(asked.size(), k);
          HitLists lists(asked.size());
          REQUIRE(candidate.device->edit_nearest(work, best).ok());
          REQUIRE(candidate.device->edit_within(work, lists).ok());
          for (std::size_t q = 0; q < asked.size(); ++q) {
            std::vector<Hit> expected = sorted(all[q]);
            std::erase_if(expected, [&](const Hit& hit) { return hit.distance > radius; });
            expect_same(expected, sorted(lists[q]));
            expected.resize(std::min(expected.size(), k));
            expect_same(expected, best.sorted(q));
          }
        }
      }
    }
  }
}

TEST_CASE("edit metric: an index is made once, and by nobody who is cancelled") {
  const Restore restore;
  Random random(3);
  const auto cpu = cpu::make_cpu_device();  // outlives what is resident on it
  Tile tile(some_texts(random, 3000, 14, 26));
  tile.place(*cpu);
  const CountingBuilder builder(index::make_text_clusters(16));
  const Queries queries({tile.texts[5]});
  Asked asked(0);
  EditWork work = queries.work(tile, &builder);
  work.range.high = 1;
  work.cancellation = &asked;
  HitLists none(1);
  CHECK(cpu->edit_within(work, none).kind == ErrorKind::kInterrupted);
  builder.built = 0;
  work.cancellation = nullptr;
  HitLists expected(1);
  const std::byte* const bytes[] = {tile.tile.host};
  reference_edit_within(work, bytes, expected);
  std::vector<HitLists> found(4, HitLists(1));
  std::vector<std::thread> threads;
  for (HitLists& lists : found) {
    threads.emplace_back([&] { CHECK(cpu->edit_within(work, lists).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const HitLists& lists : found) expect_same(sorted(expected[0]), sorted(lists[0]));
  CHECK(builder.built == 1);
}

TEST_CASE("edit metric: builders ask whether to go on") {
  Random random(9);
  const Tile tile(some_texts(random, 1500, 200, 4));
  const auto cpu = cpu::make_cpu_device();
  const std::unique_ptr<TextMetricBuilder> builders[] = {index::make_text_clusters(32),
                                                         index::make_text_pivots(0.5)};
  for (const auto& builder : builders) {
    for (const int allowed : {0, 1, 3}) {
      Asked asked(allowed);
      CHECK_THROWS_AS(builder->build(*cpu, tile.tile, tile.tile.host, &asked), Error);
    }
  }
}

TEST_CASE("edit metric: words, by fewer distances") {
  const std::vector<std::string> lines = testing::data_lines("words_es.txt");
  const std::vector<std::string> questions = testing::data_lines("words_es_queries.tsv");
  if (lines.empty() || questions.empty()) return;
  const Restore restore;
  Texts words, asked;
  for (std::size_t i = 0; i < 20000; ++i) decode_utf8(lines[i * 4], words.emplace_back());
  for (std::size_t i = 1; i <= 40; ++i) {
    decode_utf8(testing::fields(questions[i])[1], asked.emplace_back());
  }
  Tile tile(std::move(words));
  const Queries queries(asked);
  const std::unique_ptr<TextMetricBuilder> builders[] = {index::make_text_clusters(32),
                                                         index::make_text_pivots(0.5)};
  for (const Candidate& candidate : conformance_devices()) {
    if (!candidate.device->supports_edit()) continue;
    candidate.prepare();
    for (const double radius : {1.0, 2.0, 3.0}) {
      tile.place(*candidate.device);
      const auto search = [&](const TextMetricBuilder* metric, SearchCounters& counters) {
        EditWork work = queries.work(tile, metric);
        work.range.high = radius;
        work.counters = &counters;
        HitLists lists(asked.size());
        REQUIRE(candidate.device->edit_within(work, lists).ok());
        return lists;
      };
      SearchCounters all;
      const HitLists expected = search(nullptr, all);
      CHECK(all.indexed == 0);
      for (const auto& builder : builders) {
        INFO(candidate.name, " radius ", radius);
        tile.place(*candidate.device);
        SearchCounters counters;
        const HitLists found = search(builder.get(), counters);
        for (std::size_t q = 0; q < asked.size(); ++q) {
          expect_same(sorted(expected[q]), sorted(found[q]));
        }
        if (radius != 1 || prefers_brute_force(candidate)) continue;
        CHECK(counters.distances < all.distances / 3);
        CHECK(counters.indexed > asked.size() * tile.tile.live_rows / 2);
      }
    }
  }
}

// Searches through metric indexes of texts; edit_metric_build_test.cc has what these are made of.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "compute/device.h"
#include "core/utf8.h"
#include "cpu/cpu_device.h"
#include "index/metric/text_metric.h"
#include "tests/conformance/edit_tile.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_devices.h"
#include "tests/support/data_files.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing::edit;
using warplite::testing::Candidate;
using warplite::testing::conformance_devices;
using warplite::testing::Restore;

namespace {

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

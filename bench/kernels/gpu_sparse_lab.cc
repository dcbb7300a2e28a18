// Times searches of sparse vectors on a GPU, inside the engine: 1,024 queries at once, and few,
// over rows as SPLADE makes them; hits of some queries are compared with the CPU's.
//
//   gpu_sparse_lab PLUGIN [--rows 8800000] [--compared 128] [--rounds 7]
//
// A row has 120 of 30,522 terms by Zipf's law, a query 40; rare terms weigh more. Prints a JSON
// line per case.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "bench/kernels/lab_rows.h"
#include "compute/metric.h"
#include "cpu/cpu_device.h"
#include "index/tiles/sparse_postings.h"

using namespace warplite;
using namespace warplite::bench;

namespace {

constexpr std::uint32_t kTerms = 30522, kTileRows = 16384;
constexpr std::size_t kRowEntries = 120, kQueryEntries = 40;

struct Options {
  std::string plugin;
  std::size_t rows = 8800000, compared = 128;
  int rounds = 7;
};

// Draws values as SPLADE makes them.
class Generator {
 public:
  Generator() : names_(kTerms), ranks_(std::size_t{1} << kBits), weights_(4096) {
    std::mt19937_64 random(7);
    std::iota(names_.begin(), names_.end(), 0u);
    std::shuffle(names_.begin(), names_.end(), random);  // frequent terms stand anywhere
    double all = 0, sum = 0;
    for (std::uint32_t rank = 1; rank <= kTerms; ++rank) all += 1.0 / rank;
    std::size_t at = 0;
    for (std::uint32_t rank = 0; rank < kTerms; ++rank) {
      sum += 1.0 / (rank + 1) / all;
      const auto end = static_cast<std::size_t>(sum * static_cast<double>(ranks_.size()));
      while (at < std::min(end, ranks_.size())) ranks_[at++] = rank;
    }
    while (at < ranks_.size()) ranks_[at++] = kTerms - 1;
    std::normal_distribution<double> normal(-0.6, 0.7);
    for (float& weight : weights_) {
      weight = static_cast<float>(std::clamp(std::exp(normal(random)), 0.01, 4.0));
    }
  }

  // The bytes of value `number`.
  void value(std::uint64_t number, std::size_t entries, std::string& bytes) const {
    std::mt19937_64 random(number);
    std::vector<std::uint32_t> ranks;
    std::vector<bool> taken(kTerms);
    while (ranks.size() < entries) {
      const std::uint32_t rank = ranks_[random() >> (64 - kBits)];
      if (!taken[rank]) ranks.push_back(rank);
      taken[rank] = true;
    }
    std::vector<SparseEntry> all;
    for (const std::uint32_t rank : ranks) {
      const double rarity = 0.35 + 0.65 * std::log(rank + 1.0) / std::log(double{kTerms});
      all.push_back(
          {names_[rank], weights_[random() % weights_.size()] * static_cast<float>(rarity)});
    }
    std::sort(all.begin(), all.end(),
              [](const SparseEntry& a, const SparseEntry& b) { return a.index < b.index; });
    bytes.clear();
    append_sparse(all, bytes);
  }

 private:
  static constexpr int kBits = 20;
  std::vector<std::uint32_t> names_, ranks_;  // ranks by 2^20 draws
  std::vector<float> weights_;
};

struct Tile {
  Column values{PlainType::kSparse};
  std::shared_ptr<const Bytes> postings;
  std::shared_ptr<const Buffer> gpu, cpu;
};

template <class Body>
void on_all_threads(std::size_t n, const Body& body) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (std::size_t i; (i = next++) < n;) body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class Lab {
 public:
  Lab(const Options& options, Device& gpu) : options_(options), gpu_(gpu) {
    const Clock::time_point begin = Clock::now();
    tiles_.resize((options.rows + kTileRows - 1) / kTileRows);
    on_all_threads(tiles_.size(), [&](std::size_t t) { make(t); });
    const double made = milliseconds_since(begin);
    std::size_t bytes = 0;
    for (auto& tile : tiles_) {
      const HostBytes host{tile.postings, tile.postings->data(), tile.postings->size()};
      bytes += host.size;
      gpu_.make_resident(host, &tile.gpu).raise();
      cpu_->make_resident(host, &tile.cpu).raise();
    }
    std::printf(
        "{\"case\": \"data\", \"rows\": %zu, \"postings_bytes\": %zu, \"made_ms\": %.0f, "
        "\"sent_ms\": %.0f}\n",
        options.rows, bytes, made, milliseconds_since(begin) - made);
    for (std::uint64_t& word : tenth_) word = 0;
    for (std::size_t row = 0; row < kTileRows; row += 10) {
      tenth_[row / 64] |= std::uint64_t{1} << row % 64;
    }
    std::string value;
    for (std::uint64_t q = 0; q < 1024; ++q) {
      generator_.value((std::uint64_t{1} << 40) + q, kQueryEntries, value);
      queries_.emplace_back(value.data());
    }
  }

  void measure(const char* name, std::size_t queries, std::size_t k, bool tenth) {
    HitTable best(0, 0);
    SearchCounters counters;
    SparseWork work = work_of(&Tile::gpu, queries, tenth);
    work.counters = &counters;
    gpu_.sparse_nearest(work, best = HitTable(queries, k)).raise();
    const double distances = static_cast<double>(counters.distances) / static_cast<double>(queries);
    const Timing timing = time(
        options_.rounds, [&] { gpu_.sparse_nearest(work, best = HitTable(queries, k)).raise(); });
    const std::size_t compared = std::min(queries, options_.compared);
    const SparseWork same = work_of(&Tile::cpu, compared, tenth);
    HitTable expected(compared, k);
    const Clock::time_point begin = Clock::now();
    cpu_->sparse_nearest(same, expected).raise();
    const double cpu = milliseconds_since(begin) / static_cast<double>(compared);
    std::size_t different = 0;
    for (std::size_t q = 0; q < compared; ++q) {
      different += equal(expected.sorted(q), best.sorted(q)) ? 0 : 1;
    }
    std::printf(
        "{\"case\": \"%s\", \"queries\": %zu, \"k\": %zu, \"median_ms\": %.3f, \"least_ms\": %.3f, "
        "\"queries_per_second\": %.0f, \"compared_rows\": %.0f, \"cpu_ms_a_query\": %.2f, "
        "\"checked\": %zu, \"different\": %zu}\n",
        name, queries, k, timing.median, timing.least,
        1000 * static_cast<double>(queries) / timing.median, distances, cpu, compared, different);
    std::fflush(stdout);
  }

 private:
  void make(std::size_t t) {
    Tile& tile = tiles_[t];
    const std::size_t first = t * kTileRows;
    std::string value;
    for (std::size_t row = first; row < std::min(first + kTileRows, options_.rows); ++row) {
      generator_.value(row, kRowEntries, value);
      tile.values.append(Cell::blob(value));
    }
    tile.postings = std::make_shared<const Bytes>(index::make_sparse_postings(tile.values, [] {}));
  }

  SparseWork work_of(std::shared_ptr<const Buffer> Tile::*buffer, std::size_t queries, bool tenth) {
    views_.assign(tiles_.size(), {});
    for (std::size_t t = 0; t < tiles_.size(); ++t) {
      SparseTile& view = views_[t];
      view.values = &tiles_[t].values;
      view.postings = (tiles_[t].*buffer).get();
      view.rows = view.live_rows = static_cast<std::uint32_t>(tiles_[t].values.size());
      view.id = static_cast<std::uint32_t>(t);
      view.rowids.first = static_cast<RowId>(t * kTileRows);
      if (!tenth) continue;
      view.live = tenth_;
      view.live_rows = (view.rows + 9) / 10;
    }
    SparseWork work;
    work.tiles = views_;
    work.queries = std::span(queries_).first(queries);
    return work;
  }

  static bool equal(std::span<const Hit> a, std::span<const Hit> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Hit& x, const Hit& y) {
      return x.distance == y.distance && x.rowid == y.rowid;
    });
  }

  const Options options_;
  const Generator generator_;
  Device& gpu_;
  const std::shared_ptr<Device> cpu_ = cpu::make_cpu_device();
  std::vector<Tile> tiles_;
  std::vector<SparseTile> views_;
  std::vector<SparseQuery> queries_;
  std::uint64_t tenth_[kTileRows / 64];
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.plugin = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--rows") options.rows = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--compared") options.compared = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--rounds") options.rounds = std::atoi(argv[i + 1]);
  }
  Lab lab(options, open_gpu(options.plugin));
  lab.measure("one", 1, 10, false);
  lab.measure("one, 1 row in 10 lives", 1, 10, true);
  lab.measure("one, many rows", 1, 1000, false);
  lab.measure("few", 32, 10, false);
  lab.measure("batch", 1024, 10, false);
  lab.measure("batch, 1 row in 10 lives", 1024, 10, true);
  lab.measure("batch, many rows", 1024, 100, false);
  return 0;
}

// Times searches for all within a radius on a GPU, by metric indexes and by comparing every row:
// 120,000 vectors of 20 dimensions with 24,000 queries, 86,014 words with 40,000. All hits of both
// are compared with each other.
//
//   gpu_metric_lab PLUGIN --patches patch20_base.fvecs --words words_es.txt [--rounds 5]
//                  [--segment 32768] [--only vectors] [--queries 256] [--brute 0]
//
// Vectors are those of the file, again and again, with noise of 2 % of each coordinate's deviation.
// Prints a JSON line per case.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/kernels/lab_rows.h"
#include "core/utf8.h"
#include "cpu/cpu_device.h"
#include "index/metric/list_of_clusters.h"
#include "index/metric/sss.h"
#include "index/metric/text_metric.h"
#include "index/tiles/edit_tile.h"

namespace {

using namespace warplite;
using namespace warplite::bench;

struct Options {
  std::string plugin, patches, words, only;
  std::uint32_t segment = 32768;
  int rounds = 5;
  std::size_t queries = 0;  // 0: many, some, few
  bool brute = true;        // also without an index
};

struct Found {
  double median = 0, least = 0, first = 0;
  std::uint64_t distances = 0, clusters = 0, indexed = 0;
  HitLists hits;
  std::size_t total = 0;
};

// `search` fills empty lists and adds to counters.
Found measure(int rounds, std::size_t queries,
              const std::function<void(HitLists&, SearchCounters&)>& search) {
  Found found;
  std::vector<double> times;
  for (int i = 0; i < rounds + 1; ++i) {
    HitLists fresh(queries);
    SearchCounters counters;
    const Clock::time_point begin = Clock::now();
    search(fresh, counters);
    (i == 0 ? found.first : times.emplace_back()) = milliseconds_since(begin);
    found.hits.swap(fresh);
    found.distances = counters.distances;
    found.clusters = counters.clusters;
    found.indexed = counters.indexed;
  }
  std::sort(times.begin(), times.end());
  found.median = times[times.size() / 2];
  found.least = times[0];
  for (const auto& list : found.hits) found.total += list.size();
  return found;
}

void in_threads(std::size_t n, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads(std::max(1u, std::thread::hardware_concurrency()));
  for (std::jthread& thread : threads) {
    thread = std::jthread([&] {
      for (std::size_t i; (i = next++) < n;) body(i);
    });
  }
}

void sort_all(HitLists& hits) {
  in_threads(hits.size(), [&](std::size_t q) { std::sort(hits[q].begin(), hits[q].end()); });
}

bool same(const HitLists& sorted, const HitLists& others) {
  for (std::size_t q = 0; q < sorted.size(); ++q) {
    if (!std::equal(sorted[q].begin(), sorted[q].end(), others[q].begin(), others[q].end(),
                    [](const Hit& a, const Hit& b) {
                      return a.distance == b.distance && a.rowid == b.rowid;
                    })) {
      return false;
    }
  }
  return true;
}

void print(const std::string& name, const Found& found, double pairs, bool equal) {
  std::printf("{\"case\": \"%s\", \"hits\": %zu, \"ms\": %.2f, \"least\": %.2f, \"first\": %.1f, "
              "\"evaluated\": %.5f, \"visited\": %llu, \"indexed\": %.3f, \"equal\": \"%s\"}\n",
              name.c_str(), found.total, found.median, found.least, found.first,
              static_cast<double>(found.distances) / pairs,
              static_cast<unsigned long long>(found.clusters),
              static_cast<double>(found.indexed) / pairs, equal ? "yes" : "NO");
  std::fflush(stdout);
}

std::vector<float> read_fvecs(const std::string& path, std::uint32_t& dim) {
  std::ifstream in(path, std::ios::binary);
  std::vector<float> values;
  while (in.read(reinterpret_cast<char*>(&dim), 4)) {
    values.resize(values.size() + dim);
    in.read(reinterpret_cast<char*>(values.data() + values.size() - dim), dim * 4);
  }
  if (values.empty()) std::fprintf(stderr, "no vectors in %s\n", path.c_str());
  return values;
}

std::vector<float> noisy(const std::vector<float>& from, std::uint32_t dim, std::size_t rows,
                         std::mt19937_64& random) {
  const std::size_t n = from.size() / dim;
  std::vector<double> sums(dim), squares(dim);
  for (std::size_t i = 0; i < from.size(); ++i) {
    sums[i % dim] += from[i];
    squares[i % dim] += from[i] * from[i];
  }
  std::normal_distribution<float> normal;
  std::vector<float> out(rows * dim);
  for (std::size_t row = 0; row < rows; ++row) {
    const float* const pattern = &from[random() % n * dim];
    for (std::uint32_t i = 0; i < dim; ++i) {
      const double mean = sums[i] / static_cast<double>(n);
      const double deviation = std::sqrt(squares[i] / static_cast<double>(n) - mean * mean);
      out[row * dim + i] = pattern[i] + 0.02f * static_cast<float>(deviation) * normal(random);
    }
  }
  return out;
}

struct Vectors {
  std::uint32_t dim = 0;
  std::vector<float> rows, queries;
};

// Rows on the device in blocks of so many.
struct Blocks {
  std::vector<Block> blocks;
  std::vector<std::shared_ptr<const Buffer>> buffers;

  Blocks(const Vectors& vectors, std::uint32_t segment, Device& gpu) {
    const std::size_t size = vectors.rows.size() / vectors.dim;
    for (std::size_t at = 0; at < size; at += segment) {
      Block block;
      block.rows = block.live_rows =
          static_cast<std::uint32_t>(std::min<std::size_t>(segment, size - at));
      block.host = reinterpret_cast<const std::byte*>(&vectors.rows[at * vectors.dim]);
      const std::size_t bytes = std::size_t{block.rows} * vectors.dim * sizeof(float);
      gpu.make_resident({nullptr, block.host, bytes}, &buffers.emplace_back()).raise();
      block.vectors = buffers.back().get();
      block.id = static_cast<std::uint32_t>(blocks.size());
      block.rowids.first = static_cast<RowId>(at);
      blocks.push_back(block);
    }
  }
};

std::unique_ptr<index::Index> make_index(const index::Kind& kind, const char* parameter,
                                         const char* value, std::uint32_t dim) {
  index::Spec spec;
  spec.kind = kind.name;
  if (parameter != nullptr) spec.parameters[parameter] = value;
  return kind.make(spec, {ElementType::kFloat32, dim, Distance::kL2});
}

void vectors(const Options& options, Device& gpu, std::size_t queries) {
  Vectors all;
  const std::vector<float> patches = read_fvecs(options.patches, all.dim);
  std::mt19937_64 random(3);
  all.rows = noisy(patches, all.dim, 120000, random);
  all.queries = noisy(patches, all.dim, queries, random);
  struct Case {
    std::string name;
    std::unique_ptr<index::Index> index;
    std::uint32_t segment;
  };
  std::vector<Case> cases;
  cases.push_back({"LC 64", make_index(index::list_of_clusters_kind(), "size", "64", all.dim),
                   options.segment});
  cases.push_back({"LC 64, one block",
                   make_index(index::list_of_clusters_kind(), "size", "64", all.dim), 120000});
  cases.push_back({"SSS 0.5", make_index(index::sss_kind(), "alpha", "0.5", all.dim),
                   options.segment});
  cases.push_back({"SSS 0.66", make_index(index::sss_kind(), "alpha", "0.66", all.dim),
                   options.segment});
  std::vector<Blocks> blocks;
  for (const Case& one : cases) blocks.emplace_back(all, one.segment, gpu);
  const Blocks plain(all, options.segment, gpu);
  const double pairs = 120000.0 * static_cast<double>(queries);
  for (const double radius : {0.0966, 0.247, 0.642, 2.0}) {
    if (radius > 1 && queries > 1000) continue;  // most rows are hits
    Workload work;
    work.queries = {reinterpret_cast<const std::byte*>(all.queries.data()), queries, all.dim,
                    ElementType::kFloat32};
    work.range.high = radius;
    const auto search = [&](const Blocks& in, const index::Index* index) {
      return [&, index](HitLists& hits, SearchCounters& counters) {
        Workload own = work;
        own.blocks = in.blocks;
        own.counters = &counters;
        (index == nullptr ? gpu.within(own, hits) : index->within(gpu, own, hits)).raise();
      };
    };
    const std::string name = ", " + std::to_string(queries) + " queries, radius " +
                             std::to_string(radius).substr(0, 6);
    Found expected;
    if (options.brute) {
      expected = measure(queries > 1000 ? 1 : options.rounds, queries, search(plain, nullptr));
      sort_all(expected.hits);
      print("brute force" + name, expected, pairs, true);
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Found found = measure(options.rounds, queries, search(blocks[i], cases[i].index.get()));
      sort_all(found.hits);
      if (expected.hits.empty()) expected.hits = found.hits;
      print(cases[i].name + name, found, pairs, same(expected.hits, found.hits));
    }
  }
}

using CodePoints = std::vector<std::uint32_t>;

std::vector<CodePoints> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<CodePoints> texts;
  for (std::string line; std::getline(file, line);) decode_utf8(line, texts.emplace_back());
  if (texts.empty()) std::fprintf(stderr, "nothing in %s\n", path.c_str());
  return texts;
}

// Tiles of texts on the device.
struct Tiles {
  std::vector<index::EditTexts> made;
  std::vector<std::shared_ptr<const Buffer>> buffers;
  std::vector<EditTile> tiles;

  Tiles(const std::vector<CodePoints>& texts, Device& gpu) {
    for (std::size_t first = 0; first < texts.size(); first += kTileRows) {
      index::EditTileBuilder builder;
      const std::size_t end = std::min<std::size_t>(texts.size(), first + kTileRows);
      for (std::size_t row = first; row < end; ++row) builder.add_row(texts[row]);
      made.push_back(builder.finish());
    }
    for (const index::EditTexts& from : made) {
      EditTile tile;
      gpu.make_resident({nullptr, from.bytes.data(), from.bytes.size()}, &buffers.emplace_back())
          .raise();
      tile.bytes = buffers.back().get();
      tile.host = from.bytes.data();
      tile.alphabet = from.alphabet, tile.texts = from.texts;
      tile.positions = from.positions, tile.width = from.width;
      tile.rows = tile.live_rows = from.rows;
      tile.id = static_cast<std::uint32_t>(tiles.size());
      tile.rowids.first = static_cast<RowId>(tiles.size() * kTileRows);
      tiles.push_back(tile);
    }
  }
};

// Has the CPU compute distances while an index is made.
class OnHost : public TextMetricBuilder {
 public:
  explicit OnHost(std::unique_ptr<TextMetricBuilder> builder)
      : builder_(std::move(builder)), cpu_(cpu::make_cpu_device()) {}
  double cost(std::size_t texts) const override { return builder_->cost(texts); }
  std::shared_ptr<const TextMetric> build(Device&, const EditTile& tile, const std::byte* bytes,
                                          Cancellation* cancellation) const override {
    return builder_->build(*cpu_, tile, bytes, cancellation);
  }

 private:
  std::unique_ptr<TextMetricBuilder> builder_;
  std::unique_ptr<Device> cpu_;
};

void words(const Options& options, Device& gpu, std::size_t queries) {
  const std::vector<CodePoints> texts = lines_of(options.words);
  std::mt19937_64 random(5);
  std::vector<std::uint32_t> begins{0}, points;
  for (std::size_t q = 0; q < queries; ++q) {
    const CodePoints& other = texts[random() % texts.size()];
    const CodePoints query = changed(texts[random() % texts.size()], random() % 3, other, random);
    points.insert(points.end(), query.begin(), query.end());
    begins.push_back(static_cast<std::uint32_t>(points.size()));
  }
  struct Case {
    std::string name;
    std::unique_ptr<OnHost> metric;
    Tiles tiles;
  };
  std::vector<Case> cases;
  cases.push_back({"brute force", nullptr, Tiles(texts, gpu)});
  for (const std::uint32_t size : {32u, 64u}) {
    cases.push_back({"LC " + std::to_string(size),
                     std::make_unique<OnHost>(index::make_text_clusters(size)),
                     Tiles(texts, gpu)});
  }
  cases.push_back({"SSS 0.5", std::make_unique<OnHost>(index::make_text_pivots(0.5)),
                   Tiles(texts, gpu)});
  const double pairs = static_cast<double>(texts.size()) * static_cast<double>(queries);
  for (const double radius : {1.0, 2.0, 3.0, 4.0}) {
    if (radius > 3 && queries > 1000) continue;
    HitLists expected;
    for (Case& one : cases) {
      Found found = measure(options.rounds, queries, [&](HitLists& hits, SearchCounters& counters) {
        EditWork work;
        work.tiles = one.tiles.tiles;
        work.begins = begins;
        work.points = points;
        work.range.high = radius;
        work.metric = one.metric.get();
        work.counters = &counters;
        gpu.edit_within(work, hits).raise();
      });
      sort_all(found.hits);
      if (expected.empty()) expected = found.hits;
      print(one.name + ", " + std::to_string(queries) + " queries, radius " +
                std::to_string(radius).substr(0, 1),
            found, pairs, same(expected, found.hits));
    }
  }
}

std::vector<std::size_t> counts(const Options& options, std::vector<std::size_t> all) {
  if (options.queries != 0) all = {options.queries};
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.plugin = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--patches") options.patches = argv[i + 1];
    if (flag == "--words") options.words = argv[i + 1];
    if (flag == "--only") options.only = argv[i + 1];
    if (flag == "--segment") {
      options.segment = static_cast<std::uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    }
    if (flag == "--rounds") options.rounds = std::atoi(argv[i + 1]);
    if (flag == "--queries") options.queries = std::strtoul(argv[i + 1], nullptr, 10);
    if (flag == "--brute") options.brute = std::atoi(argv[i + 1]) != 0;
  }
  Device& gpu = open_gpu(options.plugin);
  const auto asked = [&](const char* name) {
    return options.only.empty() || options.only == name;
  };
  if (asked("vectors") && !options.patches.empty()) {
    for (const std::size_t queries : counts(options, {24000, 256, 4})) {
      vectors(options, gpu, queries);
    }
  }
  if (asked("words") && !options.words.empty()) {
    for (const std::size_t queries : counts(options, {40000, 256, 16})) {
      words(options, gpu, queries);
    }
  }
  return 0;
}

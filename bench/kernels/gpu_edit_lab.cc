// Times edit distances on a GPU, inside the engine: all words within 1, 2 and 3 of 40,000 queries,
// the 10 nearest of millions of titles, sequences of DNA. Hits of some queries are compared with
// those that every text's own distance gives.
//
//   gpu_edit_lab PLUGIN --words words_es.txt --titles titles_50k.txt [--rows 5000000] [--rounds 5]
//                [--only words]
//
// Titles beyond those of the file are made of halves of two each; DNA is drawn, and so are changes
// to it. Prints a JSON line per case.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/kernels/lab_rows.h"
#include "compute/edit_distance.h"
#include "core/utf8.h"
#include "index/tiles/edit_tile.h"

using namespace warplite;
using namespace warplite::bench;

namespace {

using Texts = std::vector<CodePoints>;

struct Options {
  std::string plugin, words, titles, only;
  std::size_t rows = 5000000;
  int rounds = 5;
};

Texts lines_of(const std::string& path) {
  std::ifstream file(path);
  Texts texts;
  for (std::string line; std::getline(file, line);) decode_utf8(line, texts.emplace_back());
  if (texts.empty()) std::fprintf(stderr, "nothing in %s\n", path.c_str());
  return texts;
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

struct Tiles {
  const Texts& texts;
  std::vector<index::EditTexts> made;
  std::vector<std::shared_ptr<const Buffer>> buffers;
  std::vector<EditTile> tiles;

  Tiles(const Texts& all, Device& gpu)
      : texts(all), made((all.size() + kTileRows - 1) / kTileRows) {
    in_threads(made.size(), [&](std::size_t t) {
      index::EditTileBuilder builder;
      const std::size_t end = std::min(all.size(), (t + 1) * kTileRows);
      for (std::size_t row = t * kTileRows; row < end; ++row) builder.add_row(all[row]);
      made[t] = builder.finish();
    });
    for (const index::EditTexts& tile : made) place(tile, gpu);
  }

 private:
  void place(const index::EditTexts& from, Device& gpu) {
    EditTile tile;
    gpu.make_resident({nullptr, from.bytes.data(), from.bytes.size()}, &buffers.emplace_back())
        .raise();
    tile.bytes = buffers.back().get();
    tile.alphabet = from.alphabet, tile.texts = from.texts;
    tile.positions = from.positions, tile.width = from.width;
    tile.rows = tile.live_rows = from.rows;
    tile.id = static_cast<std::uint32_t>(tiles.size());
    tile.rowids.first = static_cast<RowId>(tiles.size() * kTileRows);
    tiles.push_back(tile);
  }
};

struct Queries {
  std::vector<std::uint32_t> begins{0}, points;

  Queries(const Texts& texts, std::size_t count, std::size_t changes) {
    std::mt19937_64 random(5);
    for (std::size_t q = 0; q < count; ++q) {
      const CodePoints& other = texts[random() % texts.size()];
      const CodePoints query =
          changed(texts[random() % texts.size()], random() % (changes + 1), other, random);
      points.insert(points.end(), query.begin(), query.end());
      begins.push_back(static_cast<std::uint32_t>(points.size()));
    }
  }
  std::size_t count() const { return begins.size() - 1; }
  EditWork work(const Tiles& tiles, std::size_t first, std::size_t n) const {
    EditWork work;
    work.tiles = tiles.tiles;
    work.begins = std::span(begins).subspan(first, n + 1);
    work.points = points;
    return work;
  }
};

// Distances of all texts from a query.
std::vector<Hit> all_hits(const Tiles& tiles, std::span<const std::uint32_t> query) {
  const EditPattern pattern(query);
  std::vector<Hit> hits(tiles.texts.size());
  in_threads((hits.size() + 4095) / 4096, [&](std::size_t part) {
    for (std::size_t i = part * 4096; i < std::min(hits.size(), (part + 1) * 4096); ++i) {
      hits[i] = {static_cast<double>(pattern.distance(tiles.texts[i], nullptr)),
                 static_cast<RowId>(i), 0, 0};
    }
  });
  return hits;
}

std::string same(const std::vector<std::vector<Hit>>& found, const EditWork& work,
                 const Tiles& tiles, double radius, std::size_t k) {
  for (std::size_t q = 0; q < found.size(); ++q) {
    std::vector<Hit> expected, own = found[q];
    for (const Hit& hit : all_hits(tiles, work.query(q))) {
      if (hit.distance <= radius) expected.push_back(hit);
    }
    std::sort(expected.begin(), expected.end());
    std::sort(own.begin(), own.end());
    if (k != 0 && expected.size() > k) expected.resize(k);
    if (!std::equal(own.begin(), own.end(), expected.begin(), expected.end(),
                    [](const Hit& a, const Hit& b) {
                      return a.distance == b.distance && a.rowid == b.rowid;
                    })) {
      return "NO, query " + std::to_string(q) + ", " + std::to_string(own.size()) + " hits, not " +
             std::to_string(expected.size());
    }
  }
  return "yes, " + std::to_string(found.size());
}

constexpr std::size_t kCompared = 6;

void within(const char* name, const Tiles& tiles, const Queries& queries, double radius,
            Device& gpu, int rounds) {
  EditWork work = queries.work(tiles, 0, queries.count());
  work.range.high = radius;
  HitLists hits;
  std::vector<double> times;
  for (int i = 0; i < rounds + 1; ++i) {
    HitLists fresh(queries.count());
    const Clock::time_point begin = Clock::now();
    gpu.edit_within(work, fresh).raise();
    if (i != 0) times.push_back(milliseconds_since(begin));
    hits.swap(fresh);
  }
  std::sort(times.begin(), times.end());
  std::size_t total = 0;
  for (const auto& list : hits) total += list.size();
  hits.resize(std::min(hits.size(), kCompared));
  std::printf("{\"case\": \"%s, %zu queries, radius %g\", \"hits\": %zu, \"ms\": %.3f, "
              "\"least\": %.3f, \"equal\": \"%s\"}\n",
              name, queries.count(), radius, total, times[times.size() / 2], times[0],
              same(hits, work, tiles, radius, 0).c_str());
  std::fflush(stdout);
}

void nearest(const char* name, const Tiles& tiles, const Queries& queries, std::size_t n,
             std::size_t k, Device& gpu, int rounds) {
  const EditWork work = queries.work(tiles, 0, n);
  std::size_t next = 0;
  const Timing timing = time(rounds, [&] {
    const EditWork some = queries.work(tiles, n == 1 ? next++ % queries.count() : 0, n);
    HitTable best(n, k);
    gpu.edit_nearest(some, best).raise();
  });
  HitTable best(n, k);
  gpu.edit_nearest(work, best).raise();
  std::vector<std::vector<Hit>> found;
  for (std::size_t q = 0; q < std::min(n, kCompared); ++q) found.push_back(best.list(q));
  std::printf("{\"case\": \"%s, %zu queries, k=%zu\", \"ms\": %.3f, \"least\": %.3f, "
              "\"equal\": \"%s\"}\n",
              name, n, k, timing.median, timing.least,
              same(found, work, tiles, 1e9, k).c_str());
  std::fflush(stdout);
}

void words(const Options& options, Device& gpu) {
  const Texts texts = lines_of(options.words);
  const Tiles tiles(texts, gpu);
  const Queries queries(texts, 40000, 2);
  for (const double radius : {1.0, 2.0, 3.0}) {
    within("words", tiles, queries, radius, gpu, options.rounds);
  }
  nearest("words", tiles, queries, 40000, 10, gpu, options.rounds);
  nearest("words", tiles, queries, 1, 10, gpu, 4 * options.rounds);
}

void titles(const Options& options, Device& gpu) {
  const Texts some = lines_of(options.titles);
  std::mt19937_64 random(9);
  Texts texts = some;
  while (texts.size() < options.rows) {
    const CodePoints &a = some[random() % some.size()], &b = some[random() % some.size()];
    CodePoints both(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(a.size() / 2));
    both.insert(both.end(), b.begin() + static_cast<std::ptrdiff_t>(b.size() / 2), b.end());
    texts.push_back(std::move(both));
  }
  const Tiles tiles(texts, gpu);
  const Queries near(texts, 64, 8), far(texts, 64, 60);
  nearest("titles", tiles, near, 1, 10, gpu, 8 * options.rounds);
  nearest("titles, far queries", tiles, far, 1, 10, gpu, 8 * options.rounds);
  nearest("titles, far queries", tiles, far, 64, 10, gpu, options.rounds);
  nearest("titles", tiles, near, 1, 1000, gpu, options.rounds);
}

void dna(const Options& options, Device& gpu) {
  std::mt19937_64 random(11);
  Texts texts;
  while (texts.size() < options.rows / 5) {
    CodePoints& text = texts.emplace_back(64);
    for (std::uint32_t& point : text) point = static_cast<std::uint32_t>("ACGT"[random() % 4]);
    const std::size_t copies = random() % 3;
    for (std::size_t i = 0; i < copies; ++i) {
      CodePoints copy = changed(texts.back(), random() % 12, texts[0], random);
      texts.push_back(std::move(copy));
    }
  }
  const Tiles tiles(texts, gpu);
  const Queries queries(texts, 1000, 10);
  within("DNA", tiles, queries, 24, gpu, options.rounds);
  nearest("DNA", tiles, queries, 1000, 10, gpu, options.rounds);
  nearest("DNA", tiles, queries, 1, 10, gpu, 4 * options.rounds);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.plugin = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--words") options.words = argv[i + 1];
    if (flag == "--titles") options.titles = argv[i + 1];
    if (flag == "--only") options.only = argv[i + 1];
    if (flag == "--rows") options.rows = std::strtoul(argv[i + 1], nullptr, 10);
    if (flag == "--rounds") options.rounds = std::atoi(argv[i + 1]);
  }
  Device& gpu = open_gpu(options.plugin);
  const auto asked = [&](const char* name) {
    return options.only.empty() || options.only == name;
  };
  if (asked("words")) words(options, gpu);
  if (asked("titles")) titles(options, gpu);
  if (asked("dna")) dna(options, gpu);
  return 0;
}

// Times match counting on a GPU, inside the engine: 1,024 queries at once and single ones, over
// signatures of locality-sensitive hashing and over texts; hits of some queries are compared with
// the CPU's.
//
//   gpu_match_lab PLUGIN --titles titles_50k.txt [--share 1.0] [--rounds 7] [--only words]
//
// Titles beyond those of the file are made of halves of two each. Signatures are of vectors around
// 1,000 centres. --share: how many of the rows. Texts are also searched where one row in ten lives,
// where every second rowid is missing, and where rowids do not ascend. Prints a JSON line per case.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/kernels/lab_rows.h"
#include "bench/kernels/split_mix.h"
#include "cpu/cpu_device.h"
#include "index/text/ngram.h"
#include "index/text/words.h"
#include "index/tiles/postings.h"

using namespace warplite;
using namespace warplite::bench;

namespace {

constexpr std::size_t kQueries = 1024;
constexpr std::size_t kCompared = 32;

using Keywords = std::vector<Keyword>;

struct Options {
  std::string plugin, titles, only;
  double share = 1;
  int rounds = 7;
};

// A signature near that of one of the centres.
void signature(std::uint64_t row, std::uint64_t buckets, Keywords& out) {
  constexpr std::size_t kFunctions = 237, kCentres = 1000;
  SplitMix random(row);
  SplitMix centre(random() % kCentres);
  const std::uint64_t near = random() % 60;  // of a hundred values of the centre
  out.clear();
  for (std::size_t f = 0; f < kFunctions; ++f) {
    const std::uint64_t common = centre() % buckets, own = random() % buckets;
    out.push_back(f * buckets + (random() % 100 < near ? common : own));
  }
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (lines.empty()) std::fprintf(stderr, "nothing in %s\n", path.c_str());
  return lines;
}

// Title `row`, or the first half of one and the second of another.
std::string title(const std::vector<std::string>& titles, std::uint64_t row) {
  if (row < titles.size()) return titles[row];
  SplitMix random(row);
  const std::string& a = titles[random() % titles.size()];
  const std::string& b = titles[random() % titles.size()];
  const std::size_t end = a.find(' ', a.size() / 2), begin = b.find(' ', b.size() / 2);
  return a.substr(0, end) + (begin == b.npos ? "" : b.substr(begin));
}

// Keywords of row r; of query q are those of a row that is not among them.
using Encode = std::function<void(std::uint64_t row, Keywords& out)>;

struct Case {
  std::string name;
  std::size_t rows, k;
  bool texts;
  // Makes an encoder for a thread.
  std::function<Encode()> encoder;
};

// How rows are named, and which take part.
enum class Rows { kAll, kTenth, kGaps, kDisorder };
constexpr const char* kRowsNames[] = {"", ", 1 in 10 lives", ", rowids with gaps",
                                      ", rowids in disorder"};

struct Tiles {
  std::vector<index::Postings> postings;
  std::vector<std::shared_ptr<const Buffer>> buffers;
  std::vector<std::vector<RowId>> rowids;
  std::vector<std::uint64_t> live;  // the same in each
  std::vector<MatchTile> gpu, cpu;

  explicit Tiles(const Case& c)
      : postings((c.rows + kTileRows - 1) / kTileRows), live(kTileRows / 64) {
    std::atomic<std::size_t> next{0};
    const auto build = [&] {
      const Encode encode = c.encoder();
      index::PostingsBuilder builder;
      Keywords keywords;
      for (std::size_t t; (t = next++) < postings.size();) {
        for (std::size_t row = t * kTileRows; row < std::min(c.rows, (t + 1) * kTileRows); ++row) {
          encode(row, keywords);
          builder.add_row(keywords);
        }
        postings[t] = builder.finish();
      }
    };
    std::vector<std::jthread> threads(std::max(1u, std::thread::hardware_concurrency()));
    for (std::jthread& thread : threads) thread = std::jthread(build);
  }

  void place(Device& device, std::vector<MatchTile>& tiles) {
    tiles.clear();
    for (const index::Postings& made : postings) {
      MatchTile tile;
      device.make_resident({nullptr, made.bytes.data(), made.bytes.size()}, &buffers.emplace_back())
          .raise();
      tile.bytes = buffers.back().get();
      tile.keywords = made.keywords;
      tile.postings = made.postings;
      tile.rows = made.rows;
      tile.id = static_cast<std::uint32_t>(tiles.size());
      tiles.push_back(tile);
    }
  }

  // For all devices.
  void name_rows(Rows kind) {
    for (std::size_t row = 0; row < kTileRows; row += 10) {
      live[row / 64] |= std::uint64_t{1} << (row % 64);
    }
    rowids.assign(kind == Rows::kGaps || kind == Rows::kDisorder ? postings.size() : 0, {});
    for (std::size_t t = 0; t < postings.size(); ++t) {
      const std::uint32_t rows = postings[t].rows;
      const auto first = static_cast<RowId>(t * kTileRows);
      for (MatchTile* tile : {&gpu[t], &cpu[t]}) {
        tile->rowids = {first, nullptr};
        tile->live = kind == Rows::kTenth ? live.data() : nullptr;
        tile->live_rows = kind == Rows::kTenth ? (rows + 9) / 10 : rows;
      }
      if (rowids.empty()) continue;
      for (std::uint32_t row = 0; row < rows; ++row) {
        rowids[t].push_back(2 * first + 2 * (kind == Rows::kGaps ? row : row ^ 1));
      }
      gpu[t].rowids.list = cpu[t].rowids.list = rowids[t].data();
    }
  }
};

struct Queries {
  std::vector<std::uint32_t> begins{0};
  std::vector<MatchItem> items;

  explicit Queries(const Case& c) {
    const Encode encode = c.encoder();
    Keywords keywords;
    for (std::uint64_t q = 0; q < kQueries; ++q) {
      encode((std::uint64_t{1} << 40) + q, keywords);
      for (const Keyword key : keywords) items.push_back({key, key, 1});
      begins.push_back(static_cast<std::uint32_t>(items.size()));
    }
  }
  HitTable search(Device& device, std::span<const MatchTile> tiles, std::size_t first,
                  std::size_t n, std::size_t k) const {
    MatchWork work;
    work.tiles = tiles;
    work.begins = std::span(begins).subspan(first, n + 1);
    work.items = items;
    HitTable best(n, k);
    device.match(work, best).raise();
    return best;
  }
};

// Postings that the queries' items meet.
double increments(const Tiles& tiles, const Queries& queries) {
  double all = 0;
  for (const index::Postings& made : tiles.postings) {
    const TileLayout at = TileLayout::of(made.keywords, made.postings);
    const auto* keys = reinterpret_cast<const Keyword*>(made.bytes.data() + at.keys);
    const auto* begins = reinterpret_cast<const std::uint32_t*>(made.bytes.data() + at.begins);
    for (const MatchItem& item : queries.items) {
      const Keyword* key = std::lower_bound(keys, keys + made.keywords, item.low);
      if (key == keys + made.keywords || *key != item.low) continue;
      all += begins[key - keys + 1] - begins[key - keys];
    }
  }
  return all;
}

void search(const Options& options, const Case& c, Tiles& tiles, const Queries& queries,
            Rows kind, Device& gpu, Device& cpu) {
  tiles.buffers.clear();
  const Clock::time_point begin = Clock::now();
  tiles.place(gpu, tiles.gpu);
  const double send = milliseconds_since(begin);
  tiles.place(cpu, tiles.cpu);
  tiles.name_rows(kind);
  const auto search_all = [&] { return queries.search(gpu, tiles.gpu, 0, kQueries, c.k); };
  HitTable found = search_all();
  const Timing batch = time(options.rounds, search_all);
  std::size_t next = 0;
  const Timing single = time(5 * options.rounds, [&] {
    queries.search(gpu, tiles.gpu, next++ % kQueries, 1, c.k);
  });
  HitTable expected = queries.search(cpu, tiles.cpu, 0, kCompared, c.k);
  const std::string equal = same(found, expected);
  std::printf("{\"case\": \"%s, %zu rows%s, k=%zu\", \"items\": %.1f, \"postings\": %.3g, "
              "\"send_ms\": %.0f, \"ms\": %.3f, \"least\": %.3f, \"one_ms\": %.4f, "
              "\"one_least\": %.4f, \"equal\": \"%s\"}\n",
              c.name.c_str(), c.rows, kRowsNames[static_cast<int>(kind)], c.k,
              static_cast<double>(queries.items.size()) / static_cast<double>(kQueries),
              increments(tiles, queries), send, batch.median, batch.least, single.median,
              single.least, equal.c_str());
  std::fflush(stdout);
}

void measure(const Options& options, const Case& c, Device& gpu, Device& cpu) {
  if (!options.only.empty() && c.name.find(options.only) == c.name.npos) return;
  Tiles tiles(c);
  const Queries queries(c);
  search(options, c, tiles, queries, Rows::kAll, gpu, cpu);
  if (!c.texts) return;
  for (const Rows kind : {Rows::kTenth, Rows::kGaps, Rows::kDisorder}) {
    search(options, c, tiles, queries, kind, gpu, cpu);
  }
}

void run(const Options& options, Device& gpu, Device& cpu) {
  const std::vector<std::string> titles = lines_of(options.titles);
  const auto rows = [&](double n) { return static_cast<std::size_t>(n * options.share); };
  const auto text_encoder = [&titles](auto encoder) {
    return [&titles, encoder] {
      return [&titles, encoder](std::uint64_t row, Keywords& out) mutable {
        encoder.encode(title(titles, row), out);
      };
    };
  };
  const auto signatures = [](std::uint64_t buckets) {
    return [buckets] {
      return [buckets](std::uint64_t row, Keywords& out) { signature(row, buckets, out); };
    };
  };
  measure(options, {"words", rows(6.8e6), 100, true, text_encoder(index::WordEncoder())}, gpu, cpu);
  measure(options, {"3-grams", rows(5e6), 32, true, text_encoder(index::NgramEncoder({}))}, gpu,
          cpu);
  measure(options, {"signatures of 8192 buckets", rows(3.5e6), 100, false, signatures(8192)}, gpu,
          cpu);
  measure(options, {"signatures of 67 buckets", rows(4.5e6), 100, false, signatures(67)}, gpu,
          cpu);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.plugin = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--titles") options.titles = argv[i + 1];
    if (flag == "--share") options.share = std::strtod(argv[i + 1], nullptr);
    if (flag == "--rounds") options.rounds = std::atoi(argv[i + 1]);
    if (flag == "--only") options.only = argv[i + 1];
  }
  Device& gpu = open_gpu(options.plugin);
  const auto cpu = cpu::make_cpu_device();
  run(options, gpu, *cpu);
  return 0;
}

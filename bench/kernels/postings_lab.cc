// Match counting over postings on the CPU beside the obvious inverted index, which counts in a
// 32-bit number for every row and selects among them (CPU-Idx of papers/genie-2018 §VI), and beside
// the paper's count priority queue over the same lists: user CPU time of one thread, least of five
// runs, of batches of 1,024 queries.
// Prints one JSON line per case.
//   postings_lab titles.txt queries.tsv word_queries.tsv [rows [substring of the names]]
// Rows beyond those of the file are made of the halves of two titles each. Signatures are of
// `rows` / 5 vectors, 237 functions of 67 values, around 1,000 centres.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "compute/device.h"
#include "cpu/cpu_device.h"
#include "bench/kernels/count_queue.h"
#include "bench/kernels/split_mix.h"
#include "index/text/ngram.h"
#include "index/text/words.h"
#include "index/tiles/postings.h"

using namespace warplite;
using compute::Keyword;

namespace {

constexpr int kRuns = 5;
constexpr std::size_t kQueries = 1024;  // of a batch

using bench::SplitMix;
using Keywords = std::vector<Keyword>;

double user_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
}

double best_time(const std::function<void()>& body) {
  double best = 1e300;
  for (int run = 0; run < kRuns; ++run) {
    const double begin = user_seconds();
    body();
    best = std::min(best, user_seconds() - begin);
  }
  return best;
}

std::vector<std::string> lines_of(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (lines.empty()) {
    std::fprintf(stderr, "nothing in %s\n", path);
    std::exit(2);
  }
  return lines;
}

// The last fields of a file's lines, but for the first line.
std::vector<std::string> queries_of(const char* path) {
  std::vector<std::string> lines = lines_of(path);
  lines.erase(lines.begin());
  for (std::string& line : lines) line = line.substr(line.rfind('\t') + 1);
  return lines;
}

// What is searched, row by row.
struct Source {
  std::size_t rows;
  std::function<void(std::size_t row, Keywords& out)> encode;
};

struct CpuIdx {
  std::unordered_map<Keyword, std::pair<std::size_t, std::size_t>> lists;
  std::vector<std::uint32_t> postings;
  std::vector<std::uint32_t> counts, ids;

  explicit CpuIdx(const Source& source) : counts(source.rows) {
    Keywords keywords;
    std::size_t all = 0;
    for (std::size_t row = 0; row < source.rows; ++row) {
      source.encode(row, keywords);
      for (const Keyword key : keywords) ++lists[key].second;
      all += keywords.size();
    }
    std::size_t at = 0;
    for (auto& [key, list] : lists) {
      const std::size_t size = list.second;
      list = {at, at};
      at += size;
    }
    postings.resize(all);
    for (std::size_t row = 0; row < source.rows; ++row) {
      source.encode(row, keywords);
      for (const Keyword key : keywords) {
        postings[lists[key].second++] = static_cast<std::uint32_t>(row);
      }
    }
  }

  // Calls body(row) for every match.
  template <class Body>
  void for_each(const Keywords& query, const Body& body) const {
    for (const Keyword key : query) {
      const auto list = lists.find(key);
      if (list == lists.end()) continue;
      for (std::size_t p = list->second.first; p < list->second.second; ++p) body(postings[p]);
    }
  }

  // The k rows with the largest counts, ties by row.
  std::vector<std::uint32_t> search(const Keywords& query, std::size_t k) {
    std::fill(counts.begin(), counts.end(), 0);
    for_each(query, [&](std::uint32_t row) { ++counts[row]; });
    ids.clear();
    for (std::uint32_t row = 0; row < counts.size(); ++row) {
      if (counts[row] != 0) ids.push_back(row);
    }
    k = std::min(k, ids.size());
    std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k), ids.end(),
                      [&](std::uint32_t a, std::uint32_t b) {
                        return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
                      });
    return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k)};
  }

  std::size_t search_with_queue(const Keywords& query, std::size_t k) const {
    const auto most = static_cast<std::uint32_t>(std::max<std::size_t>(query.size(), 1));
    bench::CountQueue queue(counts.size(), k, most);
    for_each(query, [&](std::uint32_t row) { queue.add(row); });
    return queue.best().size();
  }
};

struct Tiles {
  std::vector<std::shared_ptr<const compute::Buffer>> buffers;
  std::vector<compute::MatchTile> tiles;
  std::size_t postings = 0;
  double build_seconds = 0;  // without encoding

  Tiles(compute::Device& device, const Source& source) {
    index::PostingsBuilder builder;
    std::vector<Keywords> rows;
    for (std::size_t row = 0; row < source.rows; ++row) {
      source.encode(row, rows.emplace_back());
      if (rows.size() == compute::kTileRows || row + 1 == source.rows) add(device, builder, rows);
    }
  }

  void add(compute::Device& device, index::PostingsBuilder& builder, std::vector<Keywords>& rows) {
    const double begin = user_seconds();
    for (const Keywords& row : rows) builder.add_row(row);
    const auto made = std::make_shared<index::Postings>(builder.finish());
    build_seconds += user_seconds() - begin;
    compute::MatchTile tile;
    device
        .make_resident({made, made->bytes.data(), made->bytes.size()}, &buffers.emplace_back())
        .raise();
    tile.bytes = buffers.back().get();
    tile.keywords = made->keywords;
    tile.postings = made->postings;
    tile.rows = tile.live_rows = made->rows;
    tile.rowids.first = static_cast<RowId>(tiles.size() * compute::kTileRows);
    tiles.push_back(tile);
    postings += made->postings;
    rows.clear();
  }
};

struct Queries {
  std::vector<std::uint32_t> begins{0};
  std::vector<compute::MatchItem> items;

  explicit Queries(const std::vector<Keywords>& all) {
    for (const Keywords& query : all) {
      for (const Keyword key : query) items.push_back({key, key, 1});
      begins.push_back(static_cast<std::uint32_t>(items.size()));
    }
  }
  compute::HitTable search(compute::Device& device, const Tiles& tiles, std::size_t first,
                           std::size_t n, std::size_t k) const {
    compute::MatchWork work;
    work.tiles = tiles.tiles;
    work.begins = std::span(begins).subspan(first, n + 1);
    work.items = items;
    compute::HitTable best(n, k);
    device.match(work, best).raise();
    return best;
  }
};

void check(CpuIdx& idx, const std::vector<Keywords>& queries, std::size_t k,
           compute::HitTable best) {
  for (std::size_t q = 0; q < queries.size(); ++q) {
    const std::vector<std::uint32_t> expected = idx.search(queries[q], k);
    const std::span<const Hit> found = best.sorted(q);
    bool same = found.size() == expected.size();
    for (std::size_t i = 0; same && i < found.size(); ++i) same = found[i].rowid == expected[i];
    if (same) continue;
    std::fprintf(stderr, "query %zu: other rows\n", q);
    std::exit(1);
  }
}

void measure(const char* name, compute::Device& device, const Source& source,
             const std::vector<Keywords>& queries, std::size_t k) {
  CpuIdx idx(source);
  const Tiles tiles(device, source);
  const Queries asked(queries);
  const std::size_t n = queries.size();
  const double before = user_seconds();
  compute::HitTable first = asked.search(device, tiles, 0, n, k);
  const double first_time = user_seconds() - before;
  check(idx, queries, k, std::move(first));
  // Those who take one query after the other need not do so for all of them.
  const std::size_t some = std::min<std::size_t>(n, 100);
  const double ms = 1e3 / static_cast<double>(n), some_ms = 1e3 / static_cast<double>(some);
  const double plain = some_ms * best_time([&] {
    for (std::size_t q = 0; q < some; ++q) idx.search(queries[q], k);
  });
  const double queue = some_ms * best_time([&] {
    for (std::size_t q = 0; q < some; ++q) idx.search_with_queue(queries[q], k);
  });
  const double batch = ms * best_time([&] { asked.search(device, tiles, 0, n, k); });
  const double single = some_ms * best_time([&] {
    for (std::size_t q = 0; q < some; ++q) asked.search(device, tiles, q, 1, k);
  });
  std::printf("{\"case\":\"%s\",\"rows\":%zu,\"postings\":%zu,\"queries\":%zu,\"k\":%zu,"
              "\"build_ns_per_posting\":%.1f,\"cpu_idx_ms\":%.3f,\"c_pq_ms\":%.3f,"
              "\"first_batch_ms\":%.4f,\"batch_ms\":%.4f,\"single_ms\":%.4f,"
              "\"batch_speedup\":%.1f,\"single_speedup\":%.1f}\n",
              name, source.rows, tiles.postings, n, k,
              tiles.build_seconds / static_cast<double>(tiles.postings) * 1e9, plain, queue,
              first_time * ms, batch, single, plain / batch, plain / single);
  std::fflush(stdout);
}

// Title `row`, or the first half of one and the second of another.
std::string title(const std::vector<std::string>& titles, std::size_t row) {
  if (row < titles.size()) return titles[row];
  SplitMix random(row);
  const std::string& a = titles[random() % titles.size()];
  const std::string& b = titles[random() % titles.size()];
  const std::size_t end = a.find(' ', a.size() / 2), begin = b.find(' ', b.size() / 2);
  return a.substr(0, end) + (begin == b.npos ? "" : b.substr(begin));
}

// A signature near that of one of the centres.
void signature(std::size_t row, Keywords& out) {
  constexpr std::size_t kFunctions = 237, kBuckets = 67, kCentres = 1000;
  SplitMix random(row);
  SplitMix centre(random() % kCentres);
  const std::uint64_t near = random() % 60;  // of a hundred values of the centre
  out.clear();
  for (std::size_t f = 0; f < kFunctions; ++f) {
    const std::uint64_t common = centre() % kBuckets, own = random() % kBuckets;
    out.push_back(f * 256 + (random() % 100 < near ? common : own));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    std::fprintf(stderr,
                 "postings_lab titles.txt queries.tsv word_queries.tsv [rows [substring]]\n");
    return 2;
  }
  const std::vector<std::string> titles = lines_of(arguments[1]);
  const std::size_t rows = count > 4 ? std::strtoull(arguments[4], nullptr, 10) : 1000000;
  const std::string filter = count > 5 ? arguments[5] : "";
  compute::set_thread_count(1);
  const std::unique_ptr<compute::Device> device = cpu::make_cpu_device();
  const auto wanted = [&](const char* name) {
    return std::string(name).find(filter) != std::string::npos;
  };
  const auto run_texts = [&](const char* name, const char* query_path, std::size_t k,
                             auto encoder) {
    if (!wanted(name)) return;
    std::vector<Keywords> queries;
    for (const std::string& query : queries_of(query_path)) {
      encoder.encode(query, queries.emplace_back());
    }
    // The others are titles of which no row is exactly one.
    while (queries.size() < kQueries) {
      encoder.encode(title(titles, (rows + queries.size()) * 7), queries.emplace_back());
    }
    const Source source{rows, [&](std::size_t row, Keywords& out) {
                          encoder.encode(title(titles, row), out);
                        }};
    measure(name, *device, source, queries, k);
  };
  run_texts("3-grams", arguments[2], 32, index::NgramEncoder({}));
  run_texts("words", arguments[3], 100, index::WordEncoder());
  if (wanted("signatures")) {
    std::vector<Keywords> queries(kQueries);
    for (std::size_t q = 0; q < queries.size(); ++q) signature(~q, queries[q]);
    measure("signatures", *device, {rows / 5, signature}, queries, 100);
  }
  return 0;
}

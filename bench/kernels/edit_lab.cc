// Edit distances on the CPU by tiles (compute/edit.h) beside a scan by EditPattern, which compares
// text by text, a word of 64 rows at a time, and leaves out those whose lengths differ too much:
// user CPU time of one thread, least of some runs that take turns, and the wall clock of two
// threads.
// Prints one JSON line per case; a pair is a query and a text, cells those that the whole dynamic
// programme of all pairs has. Then a line for each metric index (compute/edit_metric.h): the same
// searches through it, and the distances that they evaluate.
//   edit_lab data_folder [substring of the names [runs [thread count]]]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compute/device.h"
#include "compute/edit_distance.h"
#include "core/utf8.h"
#include "cpu/cpu_device.h"
#include "index/metric/text_metric.h"
#include "index/tiles/edit_tile.h"

using namespace warplite;

namespace {

double user_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<CodePoints> texts_of(const std::string& path, bool last_field) {
  std::ifstream file(path);
  std::vector<CodePoints> texts;
  std::string line;
  if (last_field) std::getline(file, line);
  while (std::getline(file, line)) {
    // A query of words is the second field, others are the last one.
    if (last_field) {
      const bool words = path.find("words") != path.npos;
      line = words ? line.substr(line.find('\t') + 1) : line.substr(line.rfind('\t') + 1);
      line = line.substr(0, line.find('\t'));
    }
    decode_utf8(line, texts.emplace_back());
  }
  if (texts.empty()) {
    std::fprintf(stderr, "nothing in %s\n", path.c_str());
    std::exit(2);
  }
  return texts;
}

struct Tiles {
  std::vector<std::shared_ptr<const compute::Buffer>> buffers;
  std::vector<compute::EditTile> tiles;
  double build_seconds = 0;

  Tiles(compute::Device& device, const std::vector<CodePoints>& texts) {
    index::EditTileBuilder builder;
    const double begin = user_seconds();
    for (std::size_t row = 0; row < texts.size(); ++row) {
      builder.add_row(texts[row]);
      if (builder.rows() == compute::kTileRows || row + 1 == texts.size()) add(device, builder);
    }
    build_seconds = user_seconds() - begin;
  }

  void add(compute::Device& device, index::EditTileBuilder& builder) {
    const auto made = std::make_shared<index::EditTexts>(builder.finish());
    compute::EditTile tile;
    device
        .make_resident({made, made->bytes.data(), made->bytes.size()}, &buffers.emplace_back())
        .raise();
    tile.bytes = buffers.back().get();
    tile.host = made->bytes.data();
    tile.alphabet = made->alphabet;
    tile.texts = made->texts;
    tile.positions = made->positions;
    tile.width = made->width;
    tile.rows = tile.live_rows = made->rows;
    tile.rowids.first = static_cast<RowId>(tiles.size() * compute::kTileRows);
    tiles.push_back(tile);
  }
};

// k nearest, or all within a radius.
struct Question {
  std::size_t k;
  double radius;
};

using Results = std::vector<std::vector<Hit>>;

class Case {
 public:
  Case(compute::Device& device, const std::vector<CodePoints>& texts, const Tiles& tiles,
       const std::vector<CodePoints>& queries, const Question& question)
      : device_(device), texts_(texts), tiles_(tiles), queries_(queries), question_(question) {
    for (const CodePoints& query : queries) {
      points_.insert(points_.end(), query.begin(), query.end());
      begins_.push_back(static_cast<std::uint32_t>(points_.size()));
    }
  }

  Results scan() const {
    Results results;
    for (const CodePoints& query : queries_) {
      const compute::EditPattern pattern(query);
      TopK best(question_.k == 0 ? texts_.size() : question_.k);
      best.tighten(question_.radius);
      for (std::size_t row = 0; row < texts_.size(); ++row) {
        const std::size_t n = texts_[row].size(), m = query.size();
        if (static_cast<double>(n > m ? n - m : m - n) > best.threshold()) continue;
        const auto distance = static_cast<double>(pattern.distance(texts_[row], nullptr));
        best.push({distance, static_cast<RowId>(row), 0, static_cast<std::uint32_t>(row)});
      }
      results.push_back(best.list());
    }
    return results;
  }

  Results search(bool alone, const compute::TextMetricBuilder* metric = nullptr,
                 compute::SearchCounters* counters = nullptr) const {
    Results results;
    const std::size_t step = alone ? 1 : queries_.size();
    for (std::size_t first = 0; first < queries_.size(); first += step) {
      compute::EditWork work;
      work.tiles = tiles_.tiles;
      work.begins = std::span(begins_).subspan(first, step + 1);
      work.points = points_;
      work.range.high = question_.radius;
      work.metric = metric;
      work.counters = counters;
      if (question_.k == 0) {
        compute::HitLists lists(step);
        device_.edit_within(work, lists).raise();
        for (auto& list : lists) results.push_back(std::move(list));
      } else {
        compute::HitTable table(step, question_.k);
        device_.edit_nearest(work, table).raise();
        for (std::size_t q = 0; q < step; ++q) results.push_back(table.list(q));
      }
    }
    return results;
  }

  void check(const compute::TextMetricBuilder* metric = nullptr) const {
    Results expected = scan(), alone = search(true, metric), batch = search(false, metric);
    for (std::size_t q = 0; q < expected.size(); ++q) {
      std::sort(alone[q].begin(), alone[q].end());
      std::sort(batch[q].begin(), batch[q].end());
      const auto same = [](const Hit& a, const Hit& b) {
        return a.distance == b.distance && a.rowid == b.rowid;
      };
      const auto equal = [&](const std::vector<Hit>& found) {
        return std::equal(expected[q].begin(), expected[q].end(), found.begin(), found.end(), same);
      };
      if (equal(alone[q]) && equal(batch[q])) continue;
      std::fprintf(stderr, "query %zu: other rows\n", q);
      std::exit(1);
    }
  }

  double pairs() const { return static_cast<double>(queries_.size() * texts_.size()); }
  double cells() const {
    double characters = 0;
    for (const CodePoints& text : texts_) characters += static_cast<double>(text.size());
    return characters * static_cast<double>(points_.size());
  }

 private:
  compute::Device& device_;
  const std::vector<CodePoints>& texts_;
  const Tiles& tiles_;
  const std::vector<CodePoints>& queries_;
  const Question question_;
  std::vector<std::uint32_t> begins_{0}, points_;
};

void time(double& best, double (*clock)(), const std::function<void()>& body) {
  const double begin = clock();
  body();
  best = std::min(best, clock() - begin);
}

void measure(const char* name, const Case& the_case, double queries, double build_ns, int runs,
             unsigned threads) {
  compute::set_thread_count(1);
  the_case.check();
  double scan = 1e300, alone = 1e300, batch = 1e300, wall = 1e300;
  for (int run = 0; run < runs; ++run) {
    compute::set_thread_count(1);
    if (run < 3) time(scan, user_seconds, [&] { the_case.scan(); });
    time(alone, user_seconds, [&] { the_case.search(true); });
    time(batch, user_seconds, [&] { the_case.search(false); });
    compute::set_thread_count(threads);
    time(wall, wall_seconds, [&] { the_case.search(true); });
  }
  const double ns = 1e9 / the_case.pairs(), ms = 1e3 / queries;
  std::printf("{\"case\":\"%s\",\"build_ns_per_text\":%.0f,\"scan_ns_per_pair\":%.2f,"
              "\"alone_ns_per_pair\":%.3f,\"batch_ns_per_pair\":%.3f,\"scan_ms\":%.3f,"
              "\"alone_ms\":%.3f,\"batch_ms\":%.3f,\"threads\":%u,\"alone_wall_ms\":%.3f,"
              "\"gigacells_per_second\":%.1f,\"alone_speedup\":%.1f,\"batch_speedup\":%.1f}\n",
              name, build_ns, scan * ns, alone * ns, batch * ns, scan * ms, alone * ms, batch * ms,
              threads, wall * ms, the_case.cells() / batch * 1e-9, scan / alone, scan / batch);
  std::fflush(stdout);
}

// A metric index beside none. `build`: seconds that the first search took.
void measure_index(const char* name, const char* index, const Case& the_case,
                   const compute::TextMetricBuilder& metric, double queries, double build,
                   int runs) {
  compute::set_thread_count(1);
  the_case.check(&metric);
  double flat = 1e300, flat_batch = 1e300, alone = 1e300, batch = 1e300;
  for (int run = 0; run < runs; ++run) {
    time(flat, user_seconds, [&] { the_case.search(true); });
    time(alone, user_seconds, [&] { the_case.search(true, &metric); });
    time(flat_batch, user_seconds, [&] { the_case.search(false); });
    time(batch, user_seconds, [&] { the_case.search(false, &metric); });
  }
  compute::SearchCounters with, without;
  the_case.search(true, &metric, &with);
  the_case.search(true, nullptr, &without);
  const double us = 1e6 / queries, share = 1 / the_case.pairs();
  std::printf("{\"case\":\"%s\",\"index\":\"%s\",\"build_seconds\":%.3f,\"alone_us\":%.1f,"
              "\"flat_alone_us\":%.1f,\"batch_us\":%.1f,\"flat_batch_us\":%.1f,"
              "\"evaluated\":%.4f,\"flat_evaluated\":%.4f,\"indexed\":%.3f,"
              "\"visited\":%.1f,\"alone_gain\":%.2f,\"batch_gain\":%.2f}\n",
              name, index, build, alone * us, flat * us, batch * us, flat_batch * us,
              static_cast<double>(with.distances) * share,
              static_cast<double>(without.distances) * share,
              static_cast<double>(with.indexed) * share,
              static_cast<double>(with.clusters) / queries, flat / alone, flat_batch / batch);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "edit_lab data_folder [substring [runs [thread count]]]\n");
    return 2;
  }
  const std::string folder = std::string(arguments[1]) + "/";
  const std::string filter = count > 2 ? arguments[2] : "";
  const int runs = count > 3 ? std::atoi(arguments[3]) : 5;
  const auto threads = static_cast<unsigned>(count > 4 ? std::atoi(arguments[4]) : 2);
  const std::unique_ptr<compute::Device> device = cpu::make_cpu_device();
  const struct {
    const char* name;
    const char* texts;
    const char* queries;
    std::vector<Question> questions;
  } data[] = {{"words", "words_es.txt", "words_es_queries.tsv",
               {{0, 1}, {0, 2}, {0, 3}, {10, 1e9}}},
              {"titles", "titles_50k.txt", "titles_edit_queries.tsv", {{0, 15}, {10, 1e9}}},
              {"dna", "dna64_20k.txt", "dna64_queries.tsv", {{0, 24}, {10, 1e9}}}};
  const struct {
    const char* name;
    std::unique_ptr<compute::TextMetricBuilder> builder;
  } indexes[] = {{"list_of_clusters(size=32)", index::make_text_clusters(32)},
                 {"sss(alpha=0.5)", index::make_text_pivots(0.5)}};
  for (const auto& one : data) {
    if (std::string(one.name).find(filter) == std::string::npos) continue;
    const std::vector<CodePoints> texts = texts_of(folder + one.texts, false);
    const std::vector<CodePoints> queries = texts_of(folder + one.queries, true);
    const auto count_of = static_cast<double>(queries.size());
    const auto name_of = [&](const Question& question) {
      return std::string(one.name) + (question.k == 0 ? " radius " : " k ") +
             std::to_string(question.k == 0 ? static_cast<std::size_t>(question.radius)
                                            : question.k);
    };
    const Tiles tiles(*device, texts);
    for (const Question& question : one.questions) {
      const Case the_case(*device, texts, tiles, queries, question);
      measure(name_of(question).c_str(), the_case, count_of,
              tiles.build_seconds / static_cast<double>(texts.size()) * 1e9, runs, threads);
    }
    for (const auto& index : indexes) {
      const Tiles indexed(*device, texts);
      double build = 1e300;
      for (const Question& question : one.questions) {
        const Case the_case(*device, texts, indexed, queries, question);
        compute::set_thread_count(1);
        if (build == 1e300) {
          time(build, user_seconds, [&] { the_case.search(false, index.builder.get()); });
        }
        measure_index(name_of(question).c_str(), index.name, the_case, *index.builder, count_of,
                      build, runs);
      }
    }
  }
  return 0;
}

// Times searches on a GPU, inside the engine: rows resident, queries and results in host memory.
// Every case is also answered by the CPU for some of its queries and compared, row for row.
//
//   gpu_lab PLUGIN [--base FILE.bvecs] [--only SUBSTRING] [--rounds N]
//
// Rows: lab_rows.h. Prints one JSON line per case.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "bench/kernels/lab_rows.h"
#include "core/half.h"
#include "cpu/cpu_device.h"

using namespace warplite;
using namespace warplite::bench;

namespace {

struct Options {
  std::string plugin, base, only;
  int rounds = 7;
};

struct Lab {
  Options options;
  Device& gpu;
  Device& cpu;
  bool all_equal = true;

  void report(const std::string& name, const Timing& timing, const std::string& equal) {
    std::printf("{\"case\": \"%s\", \"ms\": %.4f, \"least\": %.4f, \"equal\": \"%s\"}\n",
                name.c_str(), timing.median, timing.least, equal.c_str());
    std::fflush(stdout);
  }

  void nearest(const std::string& name, const Table& table, const std::vector<float>& queries,
               std::size_t count, std::size_t k, Distance distance = Distance::kL2,
               int one_in = 0) {
    if (name.find(options.only) == std::string::npos) return;
    Workload work;
    work.distance = distance;
    work.queries = {reinterpret_cast<const std::byte*>(queries.data()), count, table.dim,
                    ElementType::kFloat32};
    std::vector<Block> blocks = table.gpu;
    std::vector<std::vector<std::uint64_t>> live;
    if (one_in != 0) filter(blocks, live, one_in);
    work.blocks = blocks;
    HitTable found(count, k);
    const Timing timing = time(options.rounds, [&] {
      found = HitTable(count, k);
      gpu.nearest(work, found).raise();
      for (std::size_t q = 0; q < count; ++q) found.sorted(q);
    });
    report(name, timing, compare(table, work, blocks, found, k));
  }

  static void filter(std::vector<Block>& blocks, std::vector<std::vector<std::uint64_t>>& live,
                     int one_in) {
    std::mt19937_64 random(3);
    for (Block& block : blocks) {
      std::vector<std::uint64_t> words((block.rows + 63) / 64);
      block.live_rows = 0;
      for (std::uint32_t row = 0; row < block.rows; ++row) {
        if (random() % static_cast<unsigned>(one_in) != 0) continue;
        words[row / 64] |= std::uint64_t{1} << (row % 64);
        ++block.live_rows;
      }
      live.push_back(std::move(words));
      block.live = live.back().data();
    }
  }

  // The first queries on the CPU.
  std::string compare(const Table& table, const Workload& work, const std::vector<Block>& blocks,
                      HitTable& found, std::size_t k) {
    Workload sample = work;
    sample.queries.rows = std::min<std::size_t>(work.queries.rows, 64);
    std::vector<Block> same = table.cpu;
    for (std::size_t b = 0; b < same.size(); ++b) {
      same[b].live = blocks[b].live;
      same[b].live_rows = blocks[b].live_rows;
    }
    sample.blocks = same;
    HitTable expected(sample.queries.rows, k);
    cpu.nearest(sample, expected).raise();
    for (std::size_t q = 0; q < sample.queries.rows; ++q) {
      const auto &a = expected.sorted(q), &b = found.sorted(q);
      const bool equal = std::equal(a.begin(), a.end(), b.begin(), b.end(),
                                    [](const Hit& x, const Hit& y) {
                                      return x.distance == y.distance && x.rowid == y.rowid &&
                                             x.block == y.block && x.row == y.row;
                                    });
      if (!equal) {
        all_equal = false;
        return "NO, query " + std::to_string(q);
      }
    }
    return "yes, " + std::to_string(sample.queries.rows);
  }
};

void run_table(Lab& lab, const std::string& name, const Patterns& patterns, std::size_t rows,
               Noise noise, bool full) {
  Table table{patterns.dim, make_rows(patterns, rows, noise, 1), {}, {}, {}};
  const Clock::time_point begin = Clock::now();
  place(table, lab.gpu, lab.cpu);
  std::fprintf(stderr, "%s: placed in %.0f ms\n", name.c_str(), milliseconds_since(begin));
  const std::vector<float> queries = make_rows(patterns, 10000, noise, 2);
  lab.nearest(name + ", 1 query", table, queries, 1, 10);
  if (full) {
    for (std::size_t n : {2, 4, 8, 32, 64, 256, 1000}) {
      lab.nearest(name + ", " + std::to_string(n) + " queries", table, queries, n, 10);
    }
    lab.nearest(name + ", 1 query, k=100", table, queries, 1, 100);
    lab.nearest(name + ", 1 query, 1 in 10 lives", table, queries, 1, 10, Distance::kL2, 10);
    lab.nearest(name + ", 256 queries, 1 in 10 lives", table, queries, 256, 10, Distance::kL2, 10);
    lab.nearest(name + ", 1 query, k=100000", table, queries, 1, 100000);
    lab.nearest(name + ", 10000 queries, k=100", table, queries, 10000, 100);
    lab.nearest(name + ", 10000 queries, cosine", table, queries, 10000, 10, Distance::kCosine);
    lab.nearest(name + ", 10000 queries, ip", table, queries, 10000, 10, Distance::kInnerProduct);
    lab.nearest(name + ", 4 queries, l1", table, queries, 4, 10, Distance::kL1);
  }
  lab.nearest(name + ", 10000 queries", table, queries, 10000, 10);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.plugin = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--base") options.base = argv[i + 1];
    if (flag == "--only") options.only = argv[i + 1];
    if (flag == "--rounds") options.rounds = std::atoi(argv[i + 1]);
  }
  Device& gpu = open_gpu(options.plugin);
  const auto cpu = cpu::make_cpu_device();
  std::fprintf(stderr, "%s\n", gpu.describe().description.c_str());
  Lab lab{options, gpu, *cpu};
  const Patterns sift = options.base.empty() ? make_patterns(128) : read_bvecs(options.base);
  run_table(lab, "1M x 128", sift, 1000000, Noise::kInteger, true);
  run_table(lab, "1M x 128 real", sift, 1000000, Noise::kReal, false);
  run_table(lab, "1M x 768", make_patterns(768), 1000000, Noise::kReal, false);
  run_table(lab, "10M x 96", make_patterns(96), 10000000, Noise::kReal, false);
  return lab.all_equal ? 0 : 1;
}

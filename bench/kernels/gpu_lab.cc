// Times searches on a GPU, inside the engine: rows resident, queries and results in host memory.
// Every case is also answered by the CPU for some of its queries and compared, row for row. Where cuBLAS's
// library is found, batches are timed by its product as well.
//
//   gpu_lab PLUGIN [--base FILE.bvecs] [--only SUBSTRING] [--rounds N]
//
// Rows: lab_rows.h. Prints one JSON line per case.
#include <algorithm>
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
  std::string product;  // what names of cases end in
  bool all_equal = true;

  void report(const std::string& name, const Timing& timing, const std::string& equal) {
    std::printf("{\"case\": \"%s\", \"ms\": %.4f, \"least\": %.4f, \"equal\": \"%s\"}\n",
                name.c_str(), timing.median, timing.least, equal.c_str());
    std::fflush(stdout);
  }

  void nearest(const std::string& title, const Table& table, const std::vector<float>& queries,
               std::size_t count, std::size_t k, Distance distance = Distance::kL2,
               int one_in = 0) {
    const std::string name = title + product;
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

void run_batches(Lab& lab, const std::string& name, const Table& table,
                 const std::vector<float>& queries, bool full) {
  if (full) {
    for (std::size_t n : {8, 32, 64, 256, 1000}) {
      lab.nearest(name + ", " + std::to_string(n) + " queries", table, queries, n, 10);
    }
    lab.nearest(name + ", 256 queries, 1 in 10 lives", table, queries, 256, 10, Distance::kL2, 10);
    lab.nearest(name + ", 10000 queries, k=100", table, queries, 10000, 100);
    lab.nearest(name + ", 10000 queries, cosine", table, queries, 10000, 10, Distance::kCosine);
    lab.nearest(name + ", 10000 queries, ip", table, queries, 10000, 10, Distance::kInnerProduct);
  }
  lab.nearest(name + ", 10000 queries", table, queries, 10000, 10);
}

void run_few(Lab& lab, const std::string& name, const Table& table, const std::vector<float>& queries) {
  for (std::size_t n : {2, 4}) {
    lab.nearest(name + ", " + std::to_string(n) + " queries", table, queries, n, 10);
  }
  lab.nearest(name + ", 1 query, k=100", table, queries, 1, 100);
  lab.nearest(name + ", 1 query, 1 in 10 lives", table, queries, 1, 10, Distance::kL2, 10);
  lab.nearest(name + ", 1 query, k=100000", table, queries, 1, 100000);
  lab.nearest(name + ", 4 queries, l1", table, queries, 4, 10, Distance::kL1);
}

void run_table(std::vector<Lab>& labs, const std::string& name, const Patterns& patterns, std::size_t rows,
               Noise noise, bool full) {
  Table table{patterns.dim, make_rows(patterns, rows, noise, 1), {}, {}, {}};
  const std::vector<float> queries = make_rows(patterns, 10000, noise, 2);
  for (Lab& lab : labs) {
    table.gpu.clear();
    table.cpu.clear();
    table.buffers.clear();
    const Clock::time_point begin = Clock::now();
    place(table, lab.gpu, lab.cpu);
    std::fprintf(stderr, "%s%s: placed in %.0f ms\n", name.c_str(), lab.product.c_str(),
                 milliseconds_since(begin));
    if (lab.product.empty()) {
      lab.nearest(name + ", 1 query", table, queries, 1, 10);
      if (full) run_few(lab, name, table, queries);
    }
    run_batches(lab, name, table, queries, full);
  }
}

// The same GPU once more, which multiplies by cuBLAS; null where that does not work. A GPU looks at the
// environment with its first batch.
Device* open_cublas(const std::string& plugin) {
  ::setenv("WARPLITE_GPU_PRODUCT", "cublas", 1);
  Device& gpu = open_gpu(plugin);
  Table table{32, std::vector<float>(std::size_t{1024} * 32), {}, {}, {}};
  const auto cpu = cpu::make_cpu_device();
  place(table, gpu, *cpu);
  Workload work;
  work.queries = {reinterpret_cast<const std::byte*>(table.rows.data()), 64, table.dim,
                  ElementType::kFloat32};
  work.blocks = table.gpu;
  HitTable found(work.queries.rows, 1);
  const Status status = gpu.nearest(work, found);
  ::unsetenv("WARPLITE_GPU_PRODUCT");
  if (status.ok()) return &gpu;
  std::fprintf(stderr, "not by cuBLAS: %s\n", status.message.c_str());
  return nullptr;
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
  std::vector<Lab> labs{{options, gpu, *cpu, ""}};
  if (std::getenv("WARPLITE_GPU_PRODUCT") == nullptr) {
    if (Device* const device = open_cublas(options.plugin); device != nullptr) {
      labs.push_back({options, *device, *cpu, ", cublas"});
    }
  }
  const Patterns sift = options.base.empty() ? make_patterns(128) : read_bvecs(options.base);
  run_table(labs, "1M x 128", sift, 1000000, Noise::kInteger, true);
  run_table(labs, "1M x 128 real", sift, 1000000, Noise::kReal, false);
  run_table(labs, "1M x 768", make_patterns(768), 1000000, Noise::kReal, false);
  run_table(labs, "10M x 96", make_patterns(96), 10000000, Noise::kReal, false);
  return std::all_of(labs.begin(), labs.end(), [](const Lab& lab) { return lab.all_equal; }) ? 0 : 1;
}

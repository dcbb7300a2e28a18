// Times searches on a GPU, inside the engine: rows resident, queries and results in host memory.
// Every case is also answered by the CPU for some of its queries and compared, row for row.
//
//   gpu_lab PLUGIN [--base FILE.bvecs] [--only SUBSTRING] [--rounds N]
//
// Without a base, rows are drawn around random centres with 8-bit values, which is what image
// descriptors look like; with one (FILE.bvecs), they are its rows again and again, each time with
// other noise. Prints one JSON line per case.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "compute/device.h"
#include "compute/plugin.h"
#include "core/half.h"
#include "cpu/cpu_device.h"

using namespace warplite;
using namespace warplite::compute;

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

struct Options {
  std::string plugin, base, only;
  int rounds = 7;
};

// Patterns that rows are made from.
struct Patterns {
  std::uint32_t dim;
  std::vector<float> values;
  std::size_t count() const { return values.size() / dim; }
};

Patterns read_bvecs(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Patterns patterns{0, {}};
  std::int32_t dim = 0;
  while (in.read(reinterpret_cast<char*>(&dim), 4)) {
    std::vector<unsigned char> row(static_cast<std::size_t>(dim));
    in.read(reinterpret_cast<char*>(row.data()), dim);
    patterns.dim = static_cast<std::uint32_t>(dim);
    patterns.values.insert(patterns.values.end(), row.begin(), row.end());
  }
  if (patterns.values.empty()) std::fprintf(stderr, "no vectors in %s\n", path.c_str());
  return patterns;
}

Patterns make_patterns(std::uint32_t dim) {
  std::mt19937_64 random(7);
  std::exponential_distribution<float> value(1 / 30.0f);
  Patterns patterns{dim, std::vector<float>(std::size_t{20000} * dim)};
  for (float& v : patterns.values) v = std::min(255.0f, std::floor(value(random)));
  return patterns;
}

enum class Noise { kInteger, kReal };

// Rows of patterns with noise, drawn with the row number as the seed.
std::vector<float> make_rows(const Patterns& patterns, std::size_t rows, Noise noise,
                             std::uint64_t seed) {
  std::vector<float> out(rows * patterns.dim);
  const auto fill = [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      std::mt19937_64 random(seed * 1000003 + row);
      const float* pattern = &patterns.values[random() % patterns.count() * patterns.dim];
      float* to = &out[row * patterns.dim];
      for (std::uint32_t i = 0; i < patterns.dim; ++i) {
        const std::uint64_t bits = random();
        // About normal: a sum of four uniform numbers.
        const float z = static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                           (bits >> 32 & 0xffff) + (bits >> 48)) / 65536 - 2;
        const float x = std::clamp(pattern[i] + 14 * z, 0.0f, 255.0f);
        to[i] = noise == Noise::kInteger ? std::round(x) : x;
      }
    }
  };
  std::vector<std::thread> threads;
  const std::size_t n = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t t = 0; t < n; ++t) threads.emplace_back(fill, rows * t / n, rows * (t + 1) / n);
  for (std::thread& thread : threads) thread.join();
  return out;
}

// Rows on both devices, in segments of about 4 MB.
struct Table {
  std::uint32_t dim;
  std::vector<float> rows;
  std::vector<Block> gpu, cpu;
  std::vector<std::shared_ptr<const Buffer>> buffers;

  std::size_t size() const { return rows.size() / dim; }
};

void place(Table& table, Device& gpu, Device& cpu) {
  std::uint32_t segment = 1024;
  while (segment * 2 * table.dim * 4 <= (4u << 20)) segment *= 2;
  for (std::size_t at = 0; at < table.size(); at += segment) {
    const std::size_t n = std::min<std::size_t>(segment, table.size() - at);
    const auto* data = reinterpret_cast<const std::byte*>(&table.rows[at * table.dim]);
    Block block;
    block.rows = block.live_rows = static_cast<std::uint32_t>(n);
    block.id = static_cast<std::uint32_t>(table.gpu.size());
    block.rowids.first = static_cast<RowId>(at + 1);
    for (auto& [device, blocks] : {std::pair<Device*, std::vector<Block>*>{&gpu, &table.gpu},
                                   {&cpu, &table.cpu}}) {
      std::shared_ptr<const Buffer> buffer;
      device->make_resident({nullptr, data, n * table.dim * 4}, &buffer).raise();
      block.vectors = buffer.get();
      table.buffers.push_back(buffer);
      blocks->push_back(block);
    }
  }
}

struct Timing {
  double median, least;
};

Timing time(int rounds, const std::function<void()>& body) {
  body();
  body();
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const Clock::time_point begin = Clock::now();
    body();
    times.push_back(milliseconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[0]};
}

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
  std::vector<Device*> devices;
  const std::string why = open_plugin(options.plugin, WARPLITE_VERSION,
                                      [&](Device* device) { devices.push_back(device); });
  if (devices.empty()) {
    std::fprintf(stderr, "no GPU: %s\n", why.c_str());
    return 2;
  }
  const auto cpu = cpu::make_cpu_device();
  std::fprintf(stderr, "%s\n", devices[0]->describe().description.c_str());
  Lab lab{options, *devices[0], *cpu};
  const Patterns sift = options.base.empty() ? make_patterns(128) : read_bvecs(options.base);
  run_table(lab, "1M x 128", sift, 1000000, Noise::kInteger, true);
  run_table(lab, "1M x 128 real", sift, 1000000, Noise::kReal, false);
  run_table(lab, "1M x 768", make_patterns(768), 1000000, Noise::kReal, false);
  run_table(lab, "10M x 96", make_patterns(96), 10000000, Noise::kReal, false);
  return lab.all_equal ? 0 : 1;
}

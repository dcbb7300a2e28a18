// Selection by threshold beside the default one (th-heap §VI), on the CPU or on a GPU: time against
// k, and time and compression against the size of the sample. Answers are compared.
//
//   threshold_lab [--plugin PLUGIN] [--rows N] [--dim N] [--queries N] [--threads N]
//                 [--data uniform|clustered] [--k K,K,…] [--rounds N]
//
// Rows and queries are made, in [0, 1]. Prints one JSON line per k and selection, and one per size
// of the sample: `compression` is rows / rows within the threshold, the mean over queries, and
// `in_fours` the same for the most crowded query of every four, as the paper batches them.
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "bench/kernels/lab_rows.h"
#include "compute/policy/select_policy.h"
#include "cpu/cpu_device.h"

using namespace warplite;
using namespace warplite::bench;

namespace {

struct Options {
  std::string plugin, data = "uniform";
  std::size_t rows = 50000, queries = 256;
  std::uint32_t dim = 500;
  unsigned threads = 2;
  int rounds = 3;
  std::vector<std::size_t> ks = {32, 128, 512, 1000, 2000};
};

constexpr std::size_t kCentres = 200;
constexpr std::size_t kCountedQueries = 8;

std::vector<float> make_vectors(const Options& options, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(17);
  const auto unit = [](std::mt19937_64& from) {
    return static_cast<float>(from() >> 40) * 0x1p-24f;
  };
  std::vector<float> centres(kCentres * options.dim);
  for (float& value : centres) value = unit(random);
  const bool clustered = options.data == "clustered";
  std::vector<float> out(count * options.dim);
  random.seed(seed);
  for (std::size_t row = 0; row < count; ++row) {
    const float* centre = &centres[random() % kCentres * options.dim];
    for (std::uint32_t i = 0; i < options.dim; ++i) {
      const float value = unit(random);
      out[row * options.dim + i] = clustered ? 0.7f * centre[i] + 0.3f * value : value;
    }
  }
  return out;
}

double processor_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Cost {
  double wall = 1e9, processor = 1e9;  // seconds, the least of all rounds
};

template <class Body>
Cost cost_of(int rounds, const Body& body) {
  Cost cost;
  for (int i = 0; i < rounds; ++i) {
    const double before = processor_seconds();
    const Clock::time_point begin = Clock::now();
    body();
    cost.wall = std::min(cost.wall, milliseconds_since(begin) / 1e3);
    cost.processor = std::min(cost.processor, processor_seconds() - before);
  }
  return cost;
}

class Lab {
 public:
  Lab(const Options& options, Device& device, Device& cpu)
      : options_(options),
        device_(device),
        cpu_(cpu),
        table_{options.dim, make_vectors(options, options.rows, 1), {}, {}, {}},
        queries_(make_vectors(options, options.queries, 2)) {
    place(table_, device, cpu);
    work_.queries = {reinterpret_cast<const std::byte*>(queries_.data()), options.queries,
                     options.dim, ElementType::kFloat32};
    work_.blocks = table_.gpu;
  }

  bool run(std::size_t k) {
    const std::vector<std::vector<Hit>> plain = time(k, "default", Select::kDefault, {});
    bool equal = same(plain, time(k, "threshold", Select::kThreshold, {}));
    for (const std::size_t factor : {1u, 2u, 4u, 8u, 16u, 32u, 64u}) {
      if (factor * k > options_.rows / 2) break;
      const std::vector<SampleRow> sample = draw(factor * k);
      equal &= same(plain, time(k, "n_S/k=" + std::to_string(factor), Select::kDefault, sample));
    }
    return equal;
  }

 private:
  // Evenly, as the product does.
  std::vector<SampleRow> draw(std::size_t count) const {
    std::vector<SampleRow> sample;
    const std::uint32_t block_rows = table_.gpu[0].rows;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t row = options_.rows * i / count;
      sample.push_back({static_cast<std::uint32_t>(row / block_rows),
                        static_cast<std::uint32_t>(row % block_rows)});
    }
    return sample;
  }

  std::vector<std::vector<Hit>> time(std::size_t k, const std::string& name, Select select,
                                     std::span<const SampleRow> sample) {
    Workload work = work_;
    work.select = select;
    work.sample = sample;
    std::vector<std::vector<Hit>> hits;
    const Cost cost = cost_of(options_.rounds, [&] {
      HitTable best(options_.queries, k);
      if (sample.empty()) {
        compute::nearest_selected(device_, work, best).raise();
      } else {
        device_.nearest(work, best).raise();
      }
      hits.clear();
      for (std::size_t q = 0; q < options_.queries; ++q) hits.push_back(best.list(q));
    });
    std::printf("{\"device\": \"%s\", \"data\": \"%s\", \"rows\": %zu, \"dim\": %u, "
                "\"queries\": %zu, \"k\": %zu, \"select\": \"%s\", \"seconds\": %.4f, "
                "\"processor_seconds\": %.4f%s}\n",
                device_.describe().name.c_str(), options_.data.c_str(), options_.rows,
                options_.dim, options_.queries, k, name.c_str(), cost.wall, cost.processor,
                sample.empty() ? "" : compression(k, sample).c_str());
    std::fflush(stdout);
    return hits;
  }

  std::string compression(std::size_t k, std::span<const SampleRow> sample) {
    std::vector<std::vector<std::uint64_t>> live;
    std::vector<Block> blocks = table_.cpu;
    for (Block& block : blocks) {
      live.emplace_back((block.rows + 63) / 64);
      block.live_rows = 0;
    }
    for (const SampleRow& at : sample) {
      live[at.block][at.row / 64] |= std::uint64_t{1} << (at.row % 64);
      ++blocks[at.block].live_rows;
    }
    for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b].live = live[b].data();
    Workload work = work_;
    work.queries.rows = std::min(options_.queries, kCountedQueries);
    work.blocks = blocks;
    HitTable bounds(work.queries.rows, k);
    cpu_.nearest(work, bounds).raise();
    work.blocks = table_.cpu;
    const std::size_t queries = work.queries.rows;
    double sum = 0, fours = 0;
    std::size_t most = 0;
    for (std::size_t q = 0; q < queries; ++q) {
      work.queries = {work_.queries.row(q), 1, options_.dim, ElementType::kFloat32};
      work.range.high = bounds.sorted(q).back().distance;
      HitLists within(1);
      cpu_.within(work, within).raise();
      sum += static_cast<double>(options_.rows) / static_cast<double>(within[0].size());
      most = std::max(most, within[0].size());
      if (q % 4 != 3) continue;
      fours += static_cast<double>(options_.rows) / static_cast<double>(most);
      most = 0;
    }
    char text[80];
    std::snprintf(text, sizeof text, ", \"compression\": %.2f, \"in_fours\": %.2f",
                  sum / static_cast<double>(queries), 4 * fours / static_cast<double>(queries));
    return text;
  }

  static bool same(const std::vector<std::vector<Hit>>& a, const std::vector<std::vector<Hit>>& b) {
    for (std::size_t q = 0; q < a.size(); ++q) {
      const bool equal = std::equal(a[q].begin(), a[q].end(), b[q].begin(), b[q].end(),
                                    [](const Hit& x, const Hit& y) {
                                      return x.distance == y.distance && x.rowid == y.rowid &&
                                             x.block == y.block && x.row == y.row;
                                    });
      if (equal) continue;
      std::printf("{\"case\": \"query %zu differs\"}\n", q);
      return false;
    }
    return true;
  }

  const Options& options_;
  Device& device_;
  Device& cpu_;
  Table table_;
  std::vector<float> queries_;
  Workload work_;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--plugin") options.plugin = value;
    if (flag == "--data") options.data = value;
    if (flag == "--rows") options.rows = std::stoul(value);
    if (flag == "--dim") options.dim = static_cast<std::uint32_t>(std::stoul(value));
    if (flag == "--queries") options.queries = std::stoul(value);
    if (flag == "--threads") options.threads = static_cast<unsigned>(std::stoul(value));
    if (flag == "--rounds") options.rounds = std::stoi(value);
    if (flag != "--k") continue;
    options.ks.clear();
    std::istringstream list(value);
    for (std::string k; std::getline(list, k, ',');) options.ks.push_back(std::stoul(k));
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  set_thread_count(options.threads);
  const auto cpu = cpu::make_cpu_device();
  Device& device = options.plugin.empty() ? *cpu : open_gpu(options.plugin);
  Lab lab(options, device, *cpu);
  bool equal = true;
  for (const std::size_t k : options.ks) equal &= lab.run(k);
  return equal ? 0 : 1;
}

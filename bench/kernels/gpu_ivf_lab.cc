// Times inverted files on a GPU, inside the engine: training, coding, and searches of 1M × 128, with
// recall against the exact search and equality with the CPU.
//
//   gpu_ivf_lab PLUGIN [--base FILE.bvecs] [--rows 1000000] [--lists 4096] [--rounds N] [--dim 96]
//
// Rows: lab_rows.h. With --dim: rows of so many elements, and ivfpq with half as many sub-spaces
// alone. Prints one JSON line per case.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/kernels/lab_rows.h"
#include "cpu/cpu_device.h"
#include "index/ivf/ivf.h"
#include "index/trained.h"

using namespace warplite;
using namespace warplite::bench;

namespace {

constexpr std::size_t kCompared = 1000;  // queries, for recall

struct Options {
  std::string plugin, base;
  std::size_t rows = 1000000;
  std::string lists = "4096";
  int rounds = 7;
  std::uint32_t dim = 0;
};

MatrixView view(const std::vector<float>& values, std::uint32_t dim, std::size_t rows) {
  return {reinterpret_cast<const std::byte*>(values.data()), rows, dim, ElementType::kFloat32};
}

std::shared_ptr<const Buffer> resident(Device& device, const void* data, std::size_t size) {
  std::shared_ptr<const Buffer> buffer;
  device.make_resident({nullptr, static_cast<const std::byte*>(data), size}, &buffer).raise();
  return buffer;
}

// A trained index over a table, on both devices.
class IvfLab {
 public:
  IvfLab(const Options& options, const Table& table, Device& gpu, Device& cpu)
      : options_(options), table_(table), gpu_(gpu), cpu_(cpu) {}

  void build(const index::Kind& kind, const index::Spec& spec) {
    name_ = spec.kind;
    for (const auto& [key, value] : spec.parameters) name_ += " " + key + "=" + value;
    index_ = kind.make(spec, {ElementType::kFloat32, table_.dim, Distance::kL2});
    const index::Trained& trained = *index_->trained();
    const std::size_t sample = std::min(trained.sample_rows(table_.size()), table_.size());
    Clock::time_point begin = Clock::now();
    model_ = index::inverted(
        trained.train(gpu_, view(table_.rows, table_.dim, sample), table_.size(), nullptr, {}));
    report("train on " + std::to_string(sample), milliseconds_since(begin));
    begin = Clock::now();
    std::vector<Bytes> codes;
    std::size_t first = 0;
    for (const Block& block : table_.cpu) {
      codes.push_back(model_->encode(
          gpu_, {reinterpret_cast<const std::byte*>(&table_.rows[first * table_.dim]), block.rows,
                 table_.dim, ElementType::kFloat32},
          nullptr, nullptr));
      first += block.rows;
    }
    report("encode", milliseconds_since(begin));
    begin = Clock::now();
    std::vector<index::CodedBlock> coded;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      coded.push_back({{codes[i].data(), codes[i].size()}, table_.cpu[i].rows});
    }
    run_ = model_->make_run(coded);
    report("make the run", milliseconds_since(begin));
  }

  void search(const std::vector<float>& queries, std::size_t count, std::uint32_t nprobe,
              std::size_t refine, std::size_t k, HitTable* exact) {
    std::vector<float> model_queries(count * table_.dim);
    model_->to_model_space(view(queries, table_.dim, count), model_queries.data());
    IvfWork work;
    work.queries = view(queries, table_.dim, count);
    work.model_queries = model_queries.data();
    work.nprobe = nprobe;
    work.refine = refine;
    const Placed on_gpu(*this, gpu_, table_.gpu), on_cpu(*this, cpu_, table_.cpu);
    HitTable found(count, k);
    const Timing timing = time(options_.rounds, [&] {
      found = HitTable(count, k);
      gpu_.ivf_nearest(on_gpu.aim(work), found).raise();
    });
    IvfWork sample = work;
    sample.queries.rows = std::min<std::size_t>(count, 64);
    HitTable expected(sample.queries.rows, k);
    cpu_.ivf_nearest(on_cpu.aim(sample), expected).raise();
    std::printf("{\"case\": \"%s, nprobe %u, refine %zu, k=%zu, %zu queries\", \"ms\": %.4f, "
                "\"least\": %.4f, \"recall\": %.4f, \"equal\": \"%s\"}\n",
                name_.c_str(), nprobe, refine, k, count, timing.median, timing.least,
                exact == nullptr ? 0.0 : recall(found, *exact, k), same(found, expected).c_str());
    std::fflush(stdout);
  }

 private:
  // The index on one device.
  class Placed {
   public:
    Placed(const IvfLab& lab, Device& device, const std::vector<Block>& blocks) {
      const compute::IvfShape& shape = lab.model_->shape();
      centroids_ = resident(device, lab.model_->centroids(),
                            std::size_t{shape.lists} * shape.dim * sizeof(float));
      if (shape.m != 0) {
        codebooks_ = resident(device, lab.model_->codebooks(),
                              std::size_t{shape.codewords()} * shape.dim * sizeof(float));
      }
      bytes_ = resident(device, lab.run_.bytes.data(), lab.run_.bytes.size());
      run_ = {bytes_.get(), lab.run_.positions, lab.run_.longest, blocks};
      model_.shape = shape;
      model_.centroids = centroids_.get();
      model_.codebooks = codebooks_.get();
      model_.mean = lab.model_->mean();
    }
    const IvfWork& aim(IvfWork& work) const {
      work.model = model_;
      work.runs = {&run_, 1};
      return work;
    }

   private:
    std::shared_ptr<const Buffer> centroids_, codebooks_, bytes_;
    IvfRun run_;
    IvfModelBuffers model_;
  };

  void report(const std::string& what, double ms) const {
    std::printf("{\"case\": \"%s, %s\", \"ms\": %.1f}\n", name_.c_str(), what.c_str(), ms);
    std::fflush(stdout);
  }

  static double recall(HitTable& found, HitTable& exact, std::size_t k) {
    std::size_t right = 0, all = 0;
    for (std::size_t q = 0; q < std::min(found.queries(), exact.queries()); ++q) {
      for (std::size_t i = 0; i < k; ++i, ++all) {
        const Hit& want = exact.sorted(q)[i];
        for (const Hit& hit : found.sorted(q)) right += hit.rowid == want.rowid;
      }
    }
    return static_cast<double>(right) / static_cast<double>(all);
  }

  const Options& options_;
  const Table& table_;
  Device& gpu_;
  Device& cpu_;
  std::string name_;
  std::unique_ptr<index::Index> index_;
  std::shared_ptr<const index::InvertedModel> model_;
  index::Run run_;
};

HitTable exact_answers(const Table& table, const std::vector<float>& queries, Device& device) {
  Workload work;
  work.queries = view(queries, table.dim, kCompared);
  work.blocks = table.gpu;
  HitTable best(kCompared, 10);
  device.nearest(work, best).raise();
  return best;
}

void run_sift(const Options& options, IvfLab& lab, const std::vector<float>& queries,
              HitTable& exact) {
  lab.build(index::ivfpq_kind(), {"ivfpq", {{"lists", options.lists}, {"m", "32"}}});
  for (const std::size_t count : {std::size_t{1}, std::size_t{256}, std::size_t{10000}}) {
    for (const std::size_t refine : {0, 8}) {
      lab.search(queries, count, 64, refine, 10, count == 1 ? nullptr : &exact);
    }
  }
  lab.search(queries, 10000, 16, 8, 10, &exact);
  lab.search(queries, 10000, 64, 8, 100, nullptr);
  lab.build(index::ivfflat_kind(), {"ivfflat", {{"lists", options.lists}}});
  for (const std::size_t count : {std::size_t{1}, std::size_t{256}, std::size_t{10000}}) {
    lab.search(queries, count, 64, 0, 10, count == 1 ? nullptr : &exact);
  }
  lab.build(index::ivfpq_kind(), {"ivfpq", {{"lists", options.lists}, {"m", "64"}, {"bits", "4"}}});
  lab.search(queries, 10000, 64, 8, 10, &exact);
}

void run_dim(const Options& options, IvfLab& lab, const std::vector<float>& queries,
             HitTable& exact) {
  const std::string m = std::to_string(options.dim / 2);
  lab.build(index::ivfpq_kind(), {"ivfpq", {{"lists", options.lists}, {"m", m}}});
  for (const std::size_t count : {std::size_t{1}, std::size_t{10000}}) {
    lab.search(queries, count, 64, 0, 10, count == 1 ? nullptr : &exact);
    lab.search(queries, count, 64, 8, 10, count == 1 ? nullptr : &exact);
  }
}

void run(const Options& options, Device& gpu, Device& cpu) {
  const Patterns patterns = options.dim != 0        ? make_patterns(options.dim)
                            : options.base.empty() ? make_patterns(128)
                                                   : read_bvecs(options.base);
  const Noise noise = options.dim != 0 ? Noise::kReal : Noise::kInteger;
  Table table{patterns.dim, make_rows(patterns, options.rows, noise, 1), {}, {}, {}};
  place(table, gpu, cpu);
  const std::vector<float> queries = make_rows(patterns, 10000, noise, 2);
  HitTable exact = exact_answers(table, queries, gpu);
  IvfLab lab(options, table, gpu, cpu);
  (options.dim != 0 ? run_dim : run_sift)(options, lab, queries, exact);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.plugin = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--base") options.base = argv[i + 1];
    if (flag == "--rows") options.rows = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--lists") options.lists = argv[i + 1];
    if (flag == "--dim") options.dim = static_cast<std::uint32_t>(std::atoi(argv[i + 1]));
    if (flag == "--rounds") options.rounds = std::atoi(argv[i + 1]);
  }
  Device& gpu = open_gpu(options.plugin);
  compute::Registry::instance().add(cpu::make_cpu_device());  // training asks for it as well
  run(options, gpu, compute::Registry::instance().host());
  return 0;
}

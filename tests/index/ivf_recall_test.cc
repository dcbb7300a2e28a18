// How many of the true ten nearest the inverted files find, with a floor for each setting: what was
// measured, less a hundredth. 10,000 clustered vectors, 200 queries that are none of them.
#include <doctest/doctest.h>

#include <set>

#include "tests/reference/reference.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::testing;

namespace {

constexpr std::size_t kRows = 10000, kQueries = 200, kK = 10;
constexpr std::uint32_t kDim = 32;

struct Setting {
  const char* kind;
  const char* text;
  Distance distance;
  std::uint32_t nprobe;
  std::size_t refine;
  double floor;
};

constexpr Setting kSettings[] = {
    {"ivfflat", "lists=128", Distance::kL2, 1, 0, 0.709},
    {"ivfflat", "lists=128", Distance::kL2, 4, 0, 0.961},
    {"ivfflat", "lists=128", Distance::kCosine, 4, 0, 0.958},
    {"ivfflat", "lists=128", Distance::kInnerProduct, 4, 0, 0.92},
    {"ivfpq", "lists=128 m=8", Distance::kL2, 16, 0, 0.818},
    {"ivfpq", "lists=128 m=8", Distance::kL2, 16, 8, 0.995},
    {"ivfpq", "lists=128 m=16 bits=4", Distance::kL2, 16, 0, 0.777},
    {"ivfpq", "lists=128 m=16 bits=4", Distance::kL2, 16, 8, 0.995},
    {"ivfpq", "lists=128 m=8 opq=1", Distance::kL2, 16, 0, 0.837},
    {"ivfpq", "lists=128 m=8", Distance::kCosine, 16, 0, 0.811},
    {"ivfpq", "lists=128 m=8", Distance::kCosine, 16, 8, 0.995},
    {"ivfpq", "lists=128 m=8", Distance::kInnerProduct, 16, 0, 0.789},
    {"ivfpq", "lists=128 m=8", Distance::kInnerProduct, 16, 8, 0.995},
    {"ivfrabitq", "lists=128 bits=1", Distance::kL2, 16, 0, 0.644},
    {"ivfrabitq", "lists=128 bits=1", Distance::kL2, 16, 16, 0.989},
    {"ivfrabitq", "lists=128 bits=2", Distance::kL2, 16, 0, 0.816},
    {"ivfrabitq", "lists=128 bits=4", Distance::kL2, 16, 0, 0.931},
    {"ivfrabitq", "lists=128 bits=4", Distance::kL2, 16, 3, 0.989},
    {"ivfrabitq", "lists=128 bits=8", Distance::kL2, 16, 0, 0.971},
    {"ivfrabitq", "lists=128 bits=4 rotate=0", Distance::kL2, 16, 0, 0.929},
    {"ivfrabitq", "lists=600 bits=4", Distance::kL2, 60, 3, 0.989},
    {"ivfrabitq", "lists=128 bits=4", Distance::kCosine, 16, 0, 0.922},
    {"ivfrabitq", "lists=128 bits=4", Distance::kInnerProduct, 16, 0, 0.943},
    {"ivfrabitq", "lists=128 bits=4", Distance::kInnerProduct, 16, 3, 0.987},
};

// Clusters whose spread is such a part of the distance between their centres.
struct Tight {
  std::uint32_t dim;
  std::size_t clusters;
  float spread;
  Setting setting;
};

// With tables that serve all lists these find 0.40, 0.10, 0.57, 0.10, 0.30 and 1.
constexpr Tight kTight[] = {
    {32, 60, 0.01f, {"ivfpq", "lists=128 m=8", Distance::kL2, 16, 0, 0.683}},
    {32, 60, 0.001f, {"ivfpq", "lists=128 m=8", Distance::kL2, 16, 0, 0.684}},
    {32, 60, 0.001f, {"ivfpq", "lists=128 m=8", Distance::kL2, 16, 8, 0.959}},
    {32, 60, 0.001f, {"ivfpq", "lists=128 m=16 bits=4", Distance::kCosine, 16, 0, 0.627}},
    {1, 1, 1.0f, {"ivfpq", "lists=128 m=1", Distance::kL2, 16, 0, 0.841}},
    {1, 1, 1.0f, {"ivfpq", "lists=128 m=1", Distance::kL2, 16, 8, 0.99}},
};

Floats tight(const Tight& of, std::size_t rows, std::uint64_t seed) {
  Normal place(1), noise(seed);
  std::vector<float> centres(of.clusters * of.dim);
  for (float& x : centres) x = of.clusters == 1 ? 0 : place();
  Floats out{of.dim, {}};
  for (std::size_t i = 0; i < rows; ++i) {
    const float* centre = centres.data() + noise.whole() % of.clusters * of.dim;
    for (std::uint32_t d = 0; d < of.dim; ++d) out.values.push_back(centre[d] + of.spread * noise());
  }
  return out;
}

// The rows, resident, and the queries.
class Table {
 public:
  Table(Floats rows, Floats queries)
      : rows_(std::move(rows)), queries_(std::move(queries)), device_(cpu::make_cpu_device()) {
    const MatrixView view = rows_.view();
    device_->make_resident({nullptr, view.data, view.rows * view.stride()}, &buffer_).raise();
    block_.vectors = buffer_.get();
    block_.rows = block_.live_rows = kRows;
  }

  double recall(const Setting& setting) const {
    const Learnt learnt =
        learn(*device_, spec(setting.kind, setting.text), setting.distance, rows_.view());
    const index::InvertedModel& model = *learnt.model;
    const Bytes codes = model.encode(*device_, rows_.view(), nullptr, nullptr);
    const index::CodedBlock coded{span_of(codes), kRows};
    const index::Run run = model.make_run({&coded, 1});
    const compute::IvfRun given{nullptr, run.positions, run.longest, {&block_, 1}};
    std::vector<float> model_queries(queries_.values.size());
    model.to_model_space(queries_.view(), model_queries.data());
    compute::IvfWork work;
    work.distance = setting.distance;
    work.queries = queries_.view();
    work.model_queries = model_queries.data();
    work.model = model.buffers();
    work.runs = {&given, 1};
    work.nprobe = setting.nprobe;
    work.refine = setting.refine;
    const std::byte* vectors = rows_.view().data;
    const compute::IvfHostRun host{run.bytes.data(), {&vectors, 1}};
    compute::HitTable best(kQueries, kK);
    const index::Run* coarse = model.coarse();
    compute::reference_ivf_nearest(
        work,
        {model.centroids(), model.codebooks(), coarse == nullptr ? nullptr : coarse->bytes.data()},
        {&host, 1}, best);
    return common(truth(setting.distance), best);
  }

 private:
  compute::HitTable truth(Distance distance) const {
    compute::Workload work;
    work.distance = distance;
    work.queries = queries_.view();
    work.blocks = {&block_, 1};
    compute::HitTable best(kQueries, kK);
    device_->nearest(work, best).raise();
    return best;
  }

  static double common(compute::HitTable truth, compute::HitTable& found) {
    std::size_t hits = 0;
    for (std::size_t q = 0; q < kQueries; ++q) {
      std::set<RowId> wanted;
      for (const Hit& hit : truth.sorted(q)) wanted.insert(hit.rowid);
      for (const Hit& hit : found.sorted(q)) hits += wanted.count(hit.rowid);
    }
    return static_cast<double>(hits) / (kQueries * kK);
  }

  const Floats rows_, queries_;
  std::unique_ptr<compute::Device> device_;
  std::shared_ptr<const compute::Buffer> buffer_;
  compute::Block block_;
};

void check(const Table& table, const Setting& setting) {
  const double recall = table.recall(setting);
  CAPTURE(setting.kind);
  CAPTURE(setting.text);
  CAPTURE(info(setting.distance).name);
  CAPTURE(setting.nprobe);
  CAPTURE(setting.refine);
  CHECK(recall >= setting.floor);
}

}  // namespace

TEST_CASE("ivf recall: each setting finds what it is known to find") {
  const Table table(clustered(kRows, kDim, 60, 1, 2), clustered(kQueries, kDim, 60, 1, 3));
  for (const Setting& setting : kSettings) check(table, setting);
}

TEST_CASE("ivf recall: rows of a list are told apart, however near each other they are") {
  for (const Tight& of : kTight) {
    CAPTURE(of.dim);
    CAPTURE(of.spread);
    check(Table(tight(of, kRows, 2), tight(of, kQueries, 3)), of.setting);
  }
}

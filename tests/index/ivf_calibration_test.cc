// What training says of recall: that it is so for other queries, the same on every run and with any
// number of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "index/quantization/codes.h"
#include "index/recall/calibration.h"
#include "index/recall/drift.h"
#include "index/recall/mean_found.h"
#include "tests/reference/reference.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::index;
using namespace warplite::testing;

namespace {

constexpr std::size_t kRows = 12000;
constexpr std::uint32_t kDim = 24;

// The rows, resident, and queries that are none of them.
struct World {
  Floats rows, queries;
  std::unique_ptr<compute::Device> device = cpu::make_cpu_device();
  std::shared_ptr<const compute::Buffer> buffer;
  compute::Block block;

  World() : World(clustered(kRows, kDim, 40, 3, 4), clustered(300, kDim, 40, 3, 5)) {}
  World(Floats some, Floats others) : rows(std::move(some)), queries(std::move(others)) {
    use_worker_threads();
    const MatrixView view = rows.view();
    device->make_resident({nullptr, view.data, view.rows * view.stride()}, &buffer).raise();
    block.vectors = buffer.get();
    block.rows = block.live_rows = static_cast<std::uint32_t>(rows.rows());
  }

  compute::HitTable exact(std::size_t k, Distance distance) {
    compute::Workload work;
    work.distance = distance;
    work.queries = queries.view();
    work.blocks = {&block, 1};
    compute::HitTable best(queries.rows(), k);
    device->nearest(work, best).raise();
    return best;
  }

  // Of each row.
  std::vector<std::uint32_t> lists_of(const InvertedModel& model) {
    const Bytes codes = model.encode(*device, rows.view(), nullptr, nullptr);
    const CodesView view(model.shape(), {span_of(codes), block.rows});
    std::vector<std::uint32_t> lists(block.rows);
    for (std::uint32_t row = 0; row < block.rows; ++row) lists[row] = view.list(codes.data(), row);
    return lists;
  }

  // The part of the k nearest that the search finds.
  double recall(const Learnt& learnt, std::size_t k, Distance distance, std::uint32_t nprobe,
                std::size_t refine, const compute::ContrastSteps& by_contrast = {}) {
    const InvertedModel& model = *learnt.model;
    const Bytes codes = model.encode(*device, rows.view(), nullptr, nullptr);
    const CodedBlock coded{span_of(codes), block.rows};
    const Run run = model.make_run({&coded, 1});
    const auto resident = [&](const void* data, std::size_t size) {
      std::shared_ptr<const compute::Buffer> out;
      device->make_resident({nullptr, static_cast<const std::byte*>(data), size}, &out).raise();
      return out;
    };
    const compute::IvfShape& shape = model.shape();
    const auto bytes = resident(run.bytes.data(), run.bytes.size());
    const auto centroids =
        resident(model.centroids(), (std::size_t{shape.lists} + shape.groups) * rows.dim * 4);
    const auto codebooks = shape.has_codebooks()
                               ? resident(model.codebooks(), shape.codewords() * rows.dim * 4)
                               : nullptr;
    const auto coarse =
        model.coarse() == nullptr
            ? nullptr
            : resident(model.coarse()->bytes.data(), model.coarse()->bytes.size());
    std::vector<float> space(queries.rows() * rows.dim), scales(queries.rows());
    model.queries_to_model_space(queries.view(), space.data(), scales.data());
    const compute::IvfRun given{bytes.get(), run.positions, run.longest, {&block, 1}};
    compute::IvfWork work;
    work.distance = distance;
    work.queries = queries.view();
    work.model_queries = space.data();
    work.model = model.buffers();
    work.model.centroids = centroids.get();
    work.model.codebooks = codebooks.get();
    work.model.coarse = coarse.get();
    work.runs = {&given, 1};
    work.nprobe = nprobe;
    work.by_contrast = by_contrast;
    work.refine = refine;
    compute::HitTable best(queries.rows(), k), truth = exact(k, distance);
    device->ivf_nearest(work, best).raise();
    std::size_t found = 0;
    for (std::size_t q = 0; q < queries.rows(); ++q) {
      const double farthest = truth.sorted(q).back().distance;
      for (const Hit& hit : best.sorted(q)) found += hit.distance <= farthest;
    }
    return static_cast<double>(found) / static_cast<double>(k * queries.rows());
  }
};

Floats of_length_one(Floats vectors) {
  for (std::size_t i = 0; i < vectors.rows(); ++i) {
    float* const row = vectors.values.data() + i * vectors.dim;
    const float length = std::sqrt(std::inner_product(row, row + vectors.dim, row, 0.0f));
    for (std::uint32_t d = 0; d < vectors.dim; ++d) row[d] /= length;
  }
  return vectors;
}

// Normal rows, a part of them in groups of so many that are much alike.
Floats in_groups(std::size_t group, double part, double longer) {
  Normal normal(1);
  Floats rows{kDim, {}};
  while (rows.rows() < kRows) {
    const bool alone = static_cast<double>(rows.rows()) >= part * kRows;
    const double length = std::exp(longer * static_cast<double>(normal()));
    const std::vector<float> centre = normal.vector(kDim);
    for (std::size_t i = 0; i < (alone ? 1 : group); ++i) {
      for (const float x : centre) {
        rows.values.push_back((x + 0.03f * normal()) * static_cast<float>(length));
      }
    }
  }
  return rows;
}

Floats normal_rows(std::size_t rows, std::uint64_t seed, std::uint32_t dim = kDim) {
  return {dim, Normal(seed).vector(rows * dim)};
}

// Checks that the queries find what is expected, less two errors, of searches that expect just so much.
void check_expected(World& world, const Spec& spec, Distance distance,
                    std::initializer_list<std::size_t> ks, double wanted = 0.9) {
  const Learnt learnt = learn(*world.device, spec, distance, world.rows.view());
  const Calibration& calibration = *learnt.model->calibration();
  const std::uint32_t lists = learnt.model->shape().lists;
  const bool coded = learnt.model->shape().m != 0;
  for (const std::size_t k : ks) {
    const double share = static_cast<double>(k) / static_cast<double>(world.rows.rows());
    const auto expected = [&](std::uint32_t nprobe, std::size_t refine) {
      const Found all{1, 0};
      const Expected both(nprobe < lists ? calibration.lists.at(share, nprobe) : all,
                          coded ? calibration.by_codes(share, k, refine) : all);
      return both.recall - 2 * both.error;
    };
    for (const std::size_t refine : {1, 8, 64, 256}) {
      std::uint32_t nprobe = 1;
      while (nprobe < lists && expected(nprobe, refine) < wanted) ++nprobe;
      const bool chosen = expected(nprobe, refine) >= wanted && (coded || refine == 1);
      if (!chosen) continue;
      CAPTURE(spec.kind);
      CAPTURE(info(distance).name);
      CAPTURE(k);
      CAPTURE(nprobe);
      CAPTURE(refine);
      CHECK(world.recall(learnt, k, distance, nprobe, refine) > wanted - 0.03);
    }
  }
}

// Of a query and a centroid, as compute/ivf.h has it.
double score(const float* y, const float* centroid, Distance distance) {
  double sum = 0;
  for (std::uint32_t d = 0; d < kDim; ++d) {
    const double a = static_cast<double>(y[d]), b = static_cast<double>(centroid[d]);
    sum += distance == Distance::kInnerProduct ? -a * b : (a - b) * (a - b);
  }
  return sum;
}

}  // namespace

TEST_CASE("ivf calibration: other queries find what it says") {
  World world;
  for (const auto& [kind, text, distance] :
       {std::tuple{"ivfflat", "lists=100", Distance::kL2}, {"ivfpq", "lists=100 m=6", Distance::kL2},
        {"ivfpq", "lists=100 m=12 bits=4", Distance::kCosine},
        {"ivfpq", "lists=100 m=6 opq=1", Distance::kInnerProduct}}) {
    const Learnt learnt = learn(*world.device, spec(kind, text), distance, world.rows.view());
    REQUIRE(learnt.model->calibration() != nullptr);
    const Calibration& calibration = *learnt.model->calibration();
    for (const std::size_t k : {1, 10, 100, 500}) {
      for (const std::uint32_t nprobe : {1u, 4u, 16u, 50u, 100u}) {
        for (const std::size_t refine : {1, 4}) {
          const double share = static_cast<double>(k) / kRows;
          double expected = static_cast<double>(calibration.lists.at(share, nprobe).part);
          if (learnt.model->shape().m != 0) {
            expected *= static_cast<double>(calibration.by_codes(share, k, refine).part);
          }
          const double found = world.recall(learnt, k, distance, nprobe, refine);
          CAPTURE(text);
          CAPTURE(k);
          CAPTURE(nprobe);
          CAPTURE(refine);
          CAPTURE(expected);
          CAPTURE(found);
          CHECK(found > expected - 0.05);
          // What codes lose among all rows is more than they lose in a few lists.
          if (expected > 0.85) CHECK(found < expected + (refine == 1 ? 0.1 : 0.05));
        }
      }
    }
  }
}

TEST_CASE("ivf calibration: new queries find what it says where rows lie in groups, however large these are") {
  for (const std::size_t group : {40, 400}) {
    CAPTURE(group);
    World world(in_groups(group, 1, 0), normal_rows(300, 2));
    check_expected(world, spec("ivfflat", "lists=100"), Distance::kL2, {1, 10, 100});
  }
  World hundreds(in_groups(100, 1, 0), normal_rows(300, 2));
  check_expected(hundreds, spec("ivfrabitq", "lists=100"), Distance::kCosine, {10});
  World uneven(in_groups(60, 1, 0.2), normal_rows(300, 2));
  check_expected(uneven, spec("ivfflat", "lists=100"), Distance::kInnerProduct, {10});
}

TEST_CASE("ivf calibration: queries like rows in no group find what it says, if they are few") {
  for (const double part : {0.6, 0.9}) {
    CAPTURE(part);
    World world(in_groups(60, part, 0), normal_rows(300, 2));
    check_expected(world, spec("ivfflat", "lists=100"), Distance::kL2, {1, 10});
    check_expected(world, spec("ivfrabitq", "lists=100"), Distance::kL2, {1, 10});
  }
}

// Products with rows that have a part in common: nearly all queries want the same.
TEST_CASE("ivf calibration: queries that all want the same rows find what it says") {
  for (const std::uint64_t seed : {15, 23, 24, 26}) {
    CAPTURE(seed);
    Normal normal(seed);
    const std::vector<float> common = normal.vector(kDim);
    const auto alike = [&](std::size_t count) {
      Floats rows{kDim, {}};
      for (std::size_t i = 0; i < count * kDim; ++i) {
        rows.values.push_back(normal() / static_cast<float>(i % kDim + 1) + 5 * common[i % kDim]);
      }
      return rows;
    };
    World world(alike(kRows), alike(300));
    check_expected(world, spec("ivfflat", "lists=100"), Distance::kInnerProduct, {1, 10, 100});
  }
}

// It is about as near as the nearest row, so that codes put many of it before that one.
TEST_CASE("ivf calibration: queries find what it says beside one row that is there very often") {
  constexpr std::uint32_t kWide = 64;
  Floats rows = normal_rows(40000, 1, kWide);
  for (std::size_t row = 0; row < rows.rows(); row += 10) {
    std::fill_n(rows.values.begin() + static_cast<std::ptrdiff_t>(row * kWide), 3 * kWide, 0.0f);
  }
  World world(std::move(rows), normal_rows(300, 2, kWide));
  check_expected(world, spec("ivfrabitq", "lists=100 bits=2"), Distance::kL2, {1}, 0.95);
}

TEST_CASE("ivf calibration: the error is that of as many rows as were seen, unless there are no others") {
  Places same{2, {}, {}}, other{2, {}, {}};
  for (std::uint32_t query = 0; query < 200; ++query) {
    const bool found = query % 2 == 0;
    // The first queries all want row 0, which each finds, and row 1, which none does.
    same.rows.insert(same.rows.end(), {0, 1});
    same.places.insert(same.places.end(), {0, 9});
    other.rows.insert(other.rows.end(), {2 * query, 2 * query + 1});
    other.places.insert(other.places.end(), {found ? 0u : 9u, found ? 0u : 9u});
  }
  const auto error = [](const Places& of, double unseen) {
    const Found found = MeanFound(of, 2, unseen).at(5);
    CHECK(found.part == 0.5f);
    return static_cast<double>(found.error);
  };
  CHECK(error(same, 0) == doctest::Approx(1.0 / 200));
  CHECK(error(same, 1) == doctest::Approx(0.5));
  CHECK(error(other, 0) == doctest::Approx(0.5 / std::sqrt(200.0)));
  CHECK(error(other, 1) == doctest::Approx(0.5 / std::sqrt(200.0)));
}

TEST_CASE("ivf calibration: what codes find is that of a quarter of the rows, where the share is smaller") {
  Calibration calibration;
  calibration.codes = {{0.001f, 0.01f}, {1, 2}, {{0.5f, 0}, {0.75f, 0}, {0.9f, 0}, {0.99f, 0}}};
  CHECK(calibration.by_codes(1e-6, 1, 1).part == 0.5f);
  CHECK(calibration.by_codes(1e-6, 4, 1).part == 0.5f);
  CHECK(calibration.by_codes(1e-6, 40, 1).part == 0.9f);
  CHECK(calibration.by_codes(1e-6, 40, 2).part == 0.99f);
  CHECK(calibration.by_codes(0.01, 1, 2).part == 0.99f);
  CHECK(calibration.by_codes(0.5, 1000, 2).part == 0.99f);
  CHECK(Calibration().by_codes(0.5, 10, 2).part == 0);
}

TEST_CASE("ivf calibration: the same with any number of threads") {
  const RestoreThreads restore;
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(3000, 16, 10, 1, 2);
  std::vector<std::vector<std::byte>> bytes;
  for (const unsigned threads : {1u, 3u}) {
    compute::set_thread_count(threads);
    const Learnt learnt = learn(*device, spec("ivfpq", "lists=30 m=4"), Distance::kL2, rows.view());
    bytes.emplace_back(learnt.model->bytes().begin(), learnt.model->bytes().end());
  }
  CHECK(bytes[0] == bytes[1]);
}

// Squares of such numbers are infinite, or 0, as float32.
TEST_CASE("ivf calibration: lists that float32 does not tell apart promise nothing") {
  const auto device = cpu::make_cpu_device();
  for (const float scale : {1e25f, 1e-25f}) {
    Floats rows = clustered(3000, 16, 10, 1, 2);
    for (float& x : rows.values) x *= scale;
    const Learnt learnt = learn(*device, spec("ivfflat", "lists=30"), Distance::kL2, rows.view());
    CHECK(learnt.model->calibration()->lists.at(0.01, 15).part < 0.1f);
  }
  // Nor do they tell queries apart, where lists are in groups either.
  Floats rows = clustered(8000, 8, 10, 1, 2);
  for (float& x : rows.values) x *= 1e25f;
  for (const char* const lists : {"lists=30", "lists=600"}) {
    const Learnt learnt = learn(*device, spec("ivfrabitq", lists), Distance::kL2, rows.view());
    const Calibration& calibration = *learnt.model->calibration();
    CHECK(calibration.contrasts.known());
    CHECK(std::ranges::is_sorted(calibration.contrasts.limits, std::greater()));
    CHECK_FALSE(is_refused([&] { Calibration::read(span_of(calibration.bytes())); }));
  }
}

TEST_CASE("ivf calibration: too few rows tell nothing") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(900, 16, 10, 1, 2);
  const Learnt learnt = learn(*device, spec("ivfflat", "lists=9"), Distance::kL2, rows.view());
  REQUIRE(learnt.model->calibration() != nullptr);
  CHECK(learnt.model->calibration()->lists.at(0.01, 5).part == 0);
}

// Few rows lie among the centres of clusters, so that their neighbours are in many lists. Of products all are as long.
TEST_CASE("ivf calibration: queries of every contrast find what all do on average") {
  constexpr std::size_t kCentres = 40, kK = 10;
  const std::vector<float> centres = Normal(3).vector(kCentres * kDim);
  Normal normal(4);
  Floats rows{kDim, {}};
  while (rows.rows() < kRows) {
    const bool between = rows.rows() % 20 == 0;
    const float* const centre = centres.data() + normal.whole() % kCentres * kDim;
    for (std::uint32_t d = 0; d < kDim; ++d) {
      rows.values.push_back(between ? normal() : centre[d] + 0.3f * normal());
    }
  }
  for (const Distance distance : {Distance::kL2, Distance::kInnerProduct}) {
    const bool product = distance == Distance::kInnerProduct;
    const auto as_wanted = [&](Floats vectors) { return product ? of_length_one(std::move(vectors)) : vectors; };
    World world(as_wanted(rows), as_wanted(normal_rows(300, 7)));
    for (const char* kind : {"ivfflat", "ivfrabitq"}) {
      const Learnt learnt = learn(*world.device, spec(kind, "lists=100"), distance, world.rows.view());
      const Calibration& calibration = *learnt.model->calibration();
      const double share = static_cast<double>(kK) / kRows;
      std::uint32_t nprobe = 1;
      while (calibration.lists.at(share, nprobe).part < 0.9f) ++nprobe;
      const auto steps = calibration.by_contrast(share, kK, nprobe, 64, true);
      REQUIRE(steps);
      REQUIRE(steps->known());
      CAPTURE(kind);
      CAPTURE(product);
      const std::uint32_t most = std::max(8u, steps->nprobe.back());
      CHECK(calibration.contrasts.mean(*steps) < 2 * nprobe + 2);
      CHECK(world.recall(learnt, kK, distance, nprobe, 64) < 0.7);
      CHECK(world.recall(learnt, kK, distance, most, 64, *steps) > 0.8);
    }
  }
}

// Rows that are as near to other queries as their nearest are where it says, about.
TEST_CASE("ivf calibration: how many rows of lists are near") {
  World world;
  for (const Distance distance : {Distance::kL2, Distance::kInnerProduct}) {
    const Learnt learnt =
        learn(*world.device, spec("ivfflat", "lists=100"), distance, world.rows.view());
    const InvertedModel& model = *learnt.model;
    const Spread& spread = model.calibration()->spread;
    REQUIRE(spread.known());
    std::vector<double> rows(100);
    const std::vector<std::uint32_t> lists = world.lists_of(model);
    for (const std::uint32_t list : lists) rows[list] += 1;
    for (const std::size_t near : {30, 300}) {
      compute::HitTable nearest = world.exact(near, distance);
      double expected = 0;
      for (std::size_t q = 0; q < world.queries.rows(); ++q) {
        const float* const y = world.queries.row(q);
        const double norm = std::sqrt(std::inner_product(y, y + kDim, y, 0.0));
        const double farthest = nearest.sorted(q).back().distance;
        const bool product = distance == Distance::kInnerProduct;
        for (std::uint32_t list = 0; list < 100; ++list) {
          const double a = score(y, model.centroids() + list * kDim, distance);
          expected += rows[list] * spread.part({distance, norm},
                                               product ? farthest : farthest * farthest, list, a);
        }
      }
      const double each = expected / static_cast<double>(world.queries.rows());
      CAPTURE(near);
      CHECK(each > 0.7 * static_cast<double>(near));
      CHECK(each < 1.4 * static_cast<double>(near));
    }
  }
}

TEST_CASE("ivf calibration: measured again with other rows, a model says of them what they find") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(6000, 16, 40, 1, 2), others = clustered(6000, 16, 40, 9, 3);
  for (const auto& [kind, text] : {std::pair{"ivfflat", "lists=64 nprobe=4"}, {"ivfpq", "lists=64 m=4"}}) {
    const Learnt learnt = learn(*device, spec(kind, text), Distance::kL2, rows.view());
    const InvertedIndex& index = learnt.trained();
    const auto measure = [&](const InvertedModel& model, const Floats& with) {
      return index.measure(*device, model, with.view(), 0, {with.rows(), 5}, nullptr, {});
    };
    const auto same = measure(*learnt.model, clustered(6000, 16, 40, 1, 4));
    CHECK_FALSE(same->calibration()->fell());
    const auto drifted = measure(*same, others);
    CHECK(drifted->calibration()->fell());
    CHECK(drifted->calibration()->table.next_segment == 5);
    CHECK_FALSE(measure(*drifted, rows)->calibration()->fell());
    // Nothing else changed, so that codes stay as they are.
    CHECK(drifted->encode(*device, others.view(), nullptr, nullptr).size() != 0);
    const std::size_t learnt_bytes = 64 + 64 * 16 * 4;
    CHECK(std::ranges::equal(drifted->bytes().subspan(64, learnt_bytes - 64),
                             learnt.model->bytes().subspan(64, learnt_bytes - 64)));
    CHECK(index.open(drifted->bytes()) != nullptr);
    CHECK(index.measure(*device, *learnt.model, clustered(500, 16, 4, 1, 4).view(), 0, 500, nullptr, {}) == nullptr);
  }
}

TEST_CASE("ivf calibration: rows that lie elsewhere than those that were measured are told from others") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(6000, 16, 40, 1, 2);
  Floats same = clustered(1000, 16, 40, 1, 4), others = same, few = same;
  const Floats elsewhere = clustered(1000, 16, 40, 9, 3);
  std::copy_n(elsewhere.values.begin(), 300 * 16, others.values.begin());
  std::fill_n(few.values.begin(), 16, 1e6f);
  for (const auto& [kind, text] :
       {std::pair{"ivfflat", "lists=64"}, {"ivfpq", "lists=64 m=4"}, {"ivfrabitq", "lists=64"}}) {
    CAPTURE(kind);
    const Learnt learnt = learn(*device, spec(kind, text), Distance::kL2, rows.view());
    const auto drift = [&](const Floats& with) {
      return drifted(*device, *learnt.model, with.view(), nullptr);
    };
    CHECK_FALSE(drift(same));
    CHECK_FALSE(drift(few));
    CHECK(drift(elsewhere));
    CHECK(drift(others));
  }
}

TEST_CASE("ivf calibration: what is found of newer rows counts where it is less") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(6000, 16, 40, 1, 2);
  for (const auto& [kind, text] : {std::pair{"ivfflat", "lists=64 nprobe=4"}, {"ivfpq", "lists=64 m=4"}}) {
    CAPTURE(kind);
    const Learnt learnt = learn(*device, spec(kind, text), Distance::kL2, rows.view());
    const auto found = [&](std::uint64_t kind_of_newer, std::size_t newer) {
      Floats all = rows;
      const Floats last = clustered(1000, 16, 40, kind_of_newer, 3);
      all.values.insert(all.values.end(), last.values.begin(), last.values.end());
      return learnt.trained()
          .measure(*device, *learnt.model, all.view(), newer, {all.rows(), 5}, nullptr, {})
          ->calibration()
          ->present.part;
    };
    CHECK(found(9, 1000) < found(9, 0) - 0.05f);
    CHECK(found(1, 1000) == found(1, 0));  // what differs may be chance
    CHECK(found(9, 100) == found(9, 0));   // too few to say
  }
}

// k-means, codebooks and rotations, against cases whose answer is known.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "index/clustering/kmeans.h"
#include "index/clustering/lloyd.h"
#include "index/clustering/matrix.h"
#include "index/quantization/opq.h"
#include "index/quantization/pq.h"
#include "tests/support/conformance_devices.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::testing;
using namespace warplite::index;

namespace {

const Progress kSilent;

struct Trainer {
  Trainer() { use_worker_threads(); }
  std::unique_ptr<compute::Device> device = cpu::make_cpu_device();
  TrainingTask task{*device, nullptr, kSilent};
};

SampleView sample_of(const Floats& rows) { return {rows.values.data(), rows.rows(), rows.dim}; }

std::set<std::vector<float>> as_set(const std::vector<float>& rows, std::size_t dim) {
  std::set<std::vector<float>> set;
  for (std::size_t i = 0; i < rows.size(); i += dim) {
    set.emplace(rows.begin() + static_cast<std::ptrdiff_t>(i),
                rows.begin() + static_cast<std::ptrdiff_t>(i + dim));
  }
  return set;
}

double loss_of(const Trainer& trainer, const SampleView& sample, const Codebooks& codebooks) {
  const auto codes = assign(trainer.task, sample, codebooks);
  std::vector<float> decoded(sample.dim);
  double sum = 0;
  for (std::size_t i = 0; i < sample.rows; ++i) {
    decode_codes(codebooks.values.data(), codebooks.m, codebooks.codewords, codebooks.sub_dim(),
                 codes.data() + i * codebooks.m, decoded.data());
    sum += square_distance(sample.row(i), decoded.data(), sample.dim);
  }
  return sum / static_cast<double>(sample.rows);
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return most;
}

std::vector<float> naive_product(const std::vector<float>& a, const std::vector<float>& b,
                                 std::size_t rows, std::size_t depth, std::size_t columns) {
  std::vector<float> out(rows * columns);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t d = 0; d < depth; ++d) {
      for (std::size_t c = 0; c < columns; ++c) {
        out[r * columns + c] += a[r * depth + d] * b[d * columns + c];
      }
    }
  }
  return out;
}

std::vector<float> unit_matrix(std::size_t dim) {
  std::vector<float> matrix(dim * dim);
  for (std::size_t i = 0; i < dim; ++i) matrix[i * dim + i] = 1;
  return matrix;
}

}  // namespace

TEST_CASE("k-means: clusters that lie apart are found") {
  const Trainer trainer;
  Floats rows{2, {}};
  for (int i = 0; i < 300; ++i) {
    const float corner = static_cast<float>(i % 3) * 100;
    rows.values.push_back(corner + static_cast<float>(i % 2));
    rows.values.push_back(corner - static_cast<float>(i % 2));
  }
  const auto found = kmeans(trainer.task, sample_of(rows), 3);
  CHECK(as_set(found, 2) ==
        std::set<std::vector<float>>{{0.5f, -0.5f}, {100.5f, 99.5f}, {200.5f, 199.5f}});
}

TEST_CASE("k-means: as many clusters as there are different rows, when those are fewer") {
  const Trainer trainer;
  Floats rows{3, {}};
  for (int i = 0; i < 60; ++i) {
    for (int d = 0; d < 3; ++d) rows.values.push_back(static_cast<float>(i % 4));
  }
  const auto found = kmeans(trainer.task, sample_of(rows), 16);
  CHECK(as_set(found, 3) ==
        std::set<std::vector<float>>{{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}});
  CHECK(found.size() == 12);
  const Floats one{3, {1, 2, 3}};
  CHECK(kmeans(trainer.task, sample_of(one), 5) == one.values);
}

TEST_CASE("k-means: an empty cluster begins anew in the largest") {
  const auto reseeds = [](std::vector<std::uint32_t> counts) {
    std::vector<std::vector<std::uint32_t>> out;
    for (const Reseed& one : reseed_empty(std::move(counts))) {
      out.push_back({one.empty, one.donor, one.member});
    }
    return out;
  };
  using Lists = std::vector<std::vector<std::uint32_t>>;
  CHECK(reseeds({5, 3, 4}) == Lists{});
  CHECK(reseeds({5, 0, 9}) == Lists{{1, 2, 0}});
  // 9 gives, and is 4 then; 5 gives, and is 2 then; the lower of equal ones.
  CHECK(reseeds({0, 5, 9, 0, 0, 4}) == Lists{{0, 2, 0}, {3, 1, 0}, {4, 2, 1}});
  CHECK(reseeds({0, 1, 1}) == Lists{});  // nobody has rows to give
  CHECK(reseeds({0, 0, 3}) == Lists{{0, 2, 0}});
  CHECK(reseeds({0, 0}) == Lists{});
}

TEST_CASE("k-means: rare rows among equal ones keep clusters of their own") {
  const Trainer trainer;
  Floats rows{4, {}};
  std::set<std::vector<float>> different;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<float> row(4, i % 100 == 0 ? static_cast<float>(i) : -1.0f);
    rows.values.insert(rows.values.end(), row.begin(), row.end());
    different.insert(row);
  }
  CHECK(as_set(kmeans(trainer.task, sample_of(rows), 64), 4) == different);
}

namespace {

double squares_of(const std::vector<Nearest>& nearest) {
  double sum = 0;
  for (const Nearest& one : nearest) sum += one.distance * one.distance;
  return sum;
}

}  // namespace

TEST_CASE("k-means by groups: nearly the sum of squares of all together, and lists as balanced") {
  const Trainer trainer;
  const Floats rows = clustered(20000, 24, 60, 1, 2);
  const SampleView sample = sample_of(rows);
  constexpr std::uint32_t kClusters = 400;
  static_assert(kClusters > kMostTogether);
  Lloyd together(trainer.task, different_rows(sample, kClusters), 24);
  together.run(sample, 14, true);
  Lloyd grouped(trainer.task, kmeans(trainer.task, sample, kClusters), 24);
  REQUIRE(grouped.clusters() == kClusters);
  const auto expected = together.assign(sample), found = grouped.assign(sample);
  CHECK(squares_of(found) < 1.01 * squares_of(expected));
  const auto most = [](const std::vector<Nearest>& nearest) {
    return std::ranges::max(Members(nearest, kClusters).counts());
  };
  CHECK(most(found) <= most(expected));
  CHECK(std::ranges::min(Members(found, kClusters).counts()) > 0);
}

TEST_CASE("k-means by groups: rare rows among equal ones keep clusters of their own") {
  const Trainer trainer;
  Floats rows{4, {}};
  std::set<std::vector<float>> different;
  for (int i = 0; i < 40000; ++i) {
    const std::vector<float> row(4, i % 100 == 0 ? static_cast<float>(i) : -1.0f);
    rows.values.insert(rows.values.end(), row.begin(), row.end());
    different.insert(row);
  }
  REQUIRE(different.size() == 401);
  for (const std::uint32_t clusters : {401u, 5000u}) {
    CHECK(as_set(kmeans(trainer.task, sample_of(rows), clusters), 4) == different);
  }
  const Floats equal{4, std::vector<float>(4000, 2.0f)};
  CHECK(kmeans(trainer.task, sample_of(equal), 500) == std::vector<float>(4, 2.0f));
}

TEST_CASE("random_order: a permutation, the same each time") {
  const auto order = random_order(1000, 1000);
  CHECK(std::set<std::size_t>(order.begin(), order.end()).size() == 1000);
  CHECK(*std::max_element(order.begin(), order.end()) == 999);
  CHECK(!std::is_sorted(order.begin(), order.end()));
  const auto part = random_order(1000, 10);
  CHECK(part == std::vector<std::size_t>(order.begin(), order.begin() + 10));
  CHECK(random_order(3, 10).size() == 3);
  CHECK(random_order(0, 10).empty());
}

TEST_CASE("ivf training: the same bytes whatever the threads and the SIMD target") {
  const RestoreThreads restore;
  const std::string target = cpu::simd_target();
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(1500, 24, 20, 1, 2);
  for (const auto& [kind, text] : {std::pair{"ivfflat", "lists=40"}, {"ivfflat", "lists=300"}, {"ivfpq", "lists=9 m=4"},
                                   {"ivfpq", "lists=9 m=8 bits=4 opq=1"}}) {
    CAPTURE(text);
    std::vector<std::byte> first;
    for (const std::string& simd : cpu::simd_targets()) {
      for (const unsigned threads : {1u, 3u}) {
        cpu::force_simd_target(simd);
        compute::set_thread_count(threads);
        const Learnt learnt = learn(*device, spec(kind, text), Distance::kL2, rows.view());
        const auto bytes = learnt.model->bytes();
        if (first.empty()) first.assign(bytes.begin(), bytes.end());
        CAPTURE(simd);
        CHECK(std::ranges::equal(bytes, first));
      }
    }
  }
  cpu::force_simd_target(target);
}

TEST_CASE("codebooks: few different slices are kept as they are") {
  const Trainer trainer;
  Floats rows{6, {}};
  for (int i = 0; i < 400; ++i) {
    for (int d = 0; d < 6; ++d) rows.values.push_back(static_cast<float>((i * (d / 2 + 1)) % 11));
  }
  const SampleView sample = sample_of(rows);
  CHECK(loss_of(trainer, sample, train_codebooks(trainer.task, sample, 3, 16)) == 0);
  CHECK(loss_of(trainer, sample, train_codebooks(trainer.task, sample, 3, 256)) == 0);
  CHECK(loss_of(trainer, sample, train_codebooks(trainer.task, sample, 1, 8)) > 0);
}

TEST_CASE("codebooks: training lowers the loss, as more bytes do") {
  const Trainer trainer;
  const Floats rows = clustered(4000, 32, 30, 1, 2);
  const SampleView sample = sample_of(rows);
  double least = 0;
  for (const double reach : {1.0, 1.9}) {
    Codebooks codebooks = begin_codebooks(sample, 8, 16);
    double before = loss_of(trainer, sample, codebooks);
    for (int i = 0; i < 20; ++i) {
      improve(trainer.task, sample, reach, &codebooks);
      const double after = loss_of(trainer, sample, codebooks);
      CHECK(after < before);
      before = after;
    }
    least = before;
  }
  const auto loss = [&](std::uint32_t m, std::uint32_t codewords) {
    return loss_of(trainer, sample, train_codebooks(trainer.task, sample, m, codewords));
  };
  const double trained = loss(8, 16);
  CHECK(trained < 1.005 * least);
  CHECK(loss(8, 256) < 0.5 * trained);
  CHECK(loss(16, 16) < 0.6 * trained);
}

// Codewords go farther than the mean of their slices, but not beyond what float32 holds.
TEST_CASE("codebooks: of the largest numbers are finite") {
  const Trainer trainer;
  Floats rows = clustered(2000, 16, 20, 1, 2);
  for (float& value : rows.values) value *= 1e38f;
  for (float& value : rows.values) {
    value = std::clamp(value, -std::numeric_limits<float>::max(), std::numeric_limits<float>::max());
  }
  const Codebooks codebooks = train_codebooks(trainer.task, sample_of(rows), 4, 16);
  CHECK(std::ranges::all_of(codebooks.values, [](float x) { return std::isfinite(x); }));
}

TEST_CASE("codebooks: a row far from all others does not stretch them") {
  const auto device = cpu::make_cpu_device();
  use_worker_threads();
  Floats rows = clustered(2000, 16, 20, 1, 2);
  const auto index = make(spec("ivfpq", "lists=4 m=4"), {ElementType::kFloat32, 16, Distance::kL2});
  const auto largest = [&] {
    const auto model = index->trained()->train(*device, rows.view(), rows.rows(), nullptr, {});
    const float* const codebooks = model->inverted()->codebooks();
    float most = 0;
    for (std::size_t i = 0; i < 256 * 16; ++i) most = std::max(most, std::fabs(codebooks[i]));
    return most;
  };
  const float without = largest();
  for (std::size_t d = 0; d < 16; ++d) rows.values[700 * 16 + d] *= 1000;
  CHECK(largest() < 2 * without);
}

TEST_CASE("matrix: products and transposes") {
  const Restore restore;
  use_worker_threads();
  Normal noise(1);
  for (const auto& [rows, depth, columns] :
       {std::array{1, 1, 1}, {3, 5, 7}, {4, 8, 8}, {5, 257, 9}, {130, 600, 33}, {64, 256, 16}}) {
    const auto r = static_cast<std::size_t>(rows), d = static_cast<std::size_t>(depth),
               c = static_cast<std::size_t>(columns);
    std::vector<float> a(r * d), b(d * c), out(r * c, 7.0f);
    for (float& x : a) x = noise();
    for (float& x : b) x = noise();
    const auto expected = naive_product(a, b, r, d, c);
    for (const std::string& target : cpu::simd_targets()) {
      cpu::force_simd_target(target);
      for (const unsigned threads : {1u, 2u, 3u}) {
        compute::set_thread_count(threads);
        multiply(a.data(), r, d, b.data(), c, out.data());
        CHECK(out == expected);
      }
    }
    const auto turned = transpose(a.data(), r, d);
    bool equal = true;
    for (std::size_t i = 0; i < r; ++i) {
      for (std::size_t j = 0; j < d; ++j) equal = equal && turned[j * r + i] == a[i * d + j];
    }
    CHECK(equal);
  }
}

TEST_CASE("rotation: the nearest orthogonal matrix") {
  const Trainer trainer;
  Normal noise(5);
  for (const std::uint32_t dim : {1u, 2u, 7u, 40u}) {
    CAPTURE(dim);
    std::vector<float> random(std::size_t{dim} * dim);
    for (float& x : random) x = noise();
    const auto unit = unit_matrix(dim);
    const auto q = nearest_orthogonal(trainer.task, random, unit, dim);
    const auto transposed = transpose(q.data(), dim, dim);
    CHECK(largest_difference(naive_product(transposed, q, dim, dim, dim), unit) < 1e-4);
    // Of Q·S with S symmetric and positive the answer is Q.
    std::vector<float> stretched = q;
    for (std::uint32_t i = 0; i < dim; ++i) {
      for (std::uint32_t j = 0; j < dim; ++j) stretched[i * dim + j] *= static_cast<float>(j + 1);
    }
    CHECK(largest_difference(nearest_orthogonal(trainer.task, stretched, q, dim), q) < 1e-4);
    // A matrix that says nothing leaves the one before.
    const std::vector<float> zeros(std::size_t{dim} * dim);
    CHECK(largest_difference(nearest_orthogonal(trainer.task, zeros, q, dim), q) < 1e-4);
  }
}

TEST_CASE("rotation: codes lose less of data that lies across the sub-spaces") {
  const Trainer trainer;
  // Two strong directions, of which each is spread over all elements.
  Normal noise(9);
  std::vector<float> mix(16 * 16);
  for (float& x : mix) x = noise();
  const auto across = nearest_orthogonal(trainer.task, mix, unit_matrix(16), 16);
  Floats straight{16, {}}, rows{16, {}};
  for (int i = 0; i < 4000; ++i) {
    for (int d = 0; d < 16; ++d) straight.values.push_back(noise() * (d % 4 == 0 ? 8.0f : 0.3f));
  }
  rows.values.resize(straight.values.size());
  multiply(straight.values.data(), straight.rows(), 16, across.data(), 16, rows.values.data());
  const SampleView sample = sample_of(rows);
  const auto rotation = train_rotation(trainer.task, sample, 4, 16);
  Floats rotated{16, std::vector<float>(rows.values.size())};
  multiply(rows.values.data(), rows.rows(), 16, rotation.data(), 16, rotated.values.data());
  const auto loss = [&](const SampleView& view) {
    return loss_of(trainer, view, train_codebooks(trainer.task, view, 4, 16));
  };
  CHECK(loss(sample_of(rotated)) < 0.75 * loss(sample));
}

TEST_CASE("rotation: what varies along a few elements is shared out to all sub-spaces") {
  const Trainer trainer;
  Normal noise(9);
  Floats rows{16, {}};
  for (int i = 0; i < 4000; ++i) {
    for (int d = 0; d < 16; ++d) rows.values.push_back(noise() * (d < 4 ? 8.0f : 0.3f));
  }
  const SampleView sample = sample_of(rows);
  const auto rotation = train_rotation(trainer.task, sample, 4, 16);
  Floats rotated{16, std::vector<float>(rows.values.size())};
  multiply(rows.values.data(), rows.rows(), 16, rotation.data(), 16, rotated.values.data());
  const auto loss = [&](const SampleView& view) {
    return loss_of(trainer, view, train_codebooks(trainer.task, view, 4, 16));
  };
  CHECK(loss(sample_of(rotated)) < 0.5 * loss(sample));
}

namespace {

// Says stop when it was asked so many times.
class StopAfter : public compute::Cancellation {
 public:
  explicit StopAfter(int asks) : left_(asks) {}
  bool requested() override { return left_-- <= 0; }

 private:
  int left_;
};

}  // namespace

TEST_CASE("lists that the index chooses are no more than a small sample of a large table has rows for") {
  const Trainer trainer;
  const Floats rows = clustered(800, 16, 8, 5, 6);
  for (const char* kind : {"ivfflat", "ivfpq", "ivfrabitq", "approximate"}) {
    CAPTURE(kind);
    const auto index = make(spec(kind, ""), {ElementType::kFloat32, 16, Distance::kL2});
    const auto model =
        index->trained()->train(*trainer.device, rows.view(), 100'000'000, nullptr, {});
    CHECK(model->inverted()->shape().lists > 12);
    CHECK(model->inverted()->shape().lists <= 25);
  }
  const auto given = make(spec("ivfflat", "lists=801"), {ElementType::kFloat32, 16, Distance::kL2});
  CHECK_THROWS_AS(
      given->trained()->train(*trainer.device, rows.view(), 100'000'000, nullptr, {}), Error);
}

TEST_CASE("an index learns unasked once it takes long to compare all vectors") {
  const auto first = [](const char* kind, const char* parameters, ElementType type, std::uint32_t dim) {
    const auto index = make(spec(kind, parameters), {type, dim, Distance::kL2});
    std::uint64_t low = 0, high = 2'000'000;  // wants none, wants it
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (index->trained()->wants_training(middle, nullptr) ? high : low) = middle;
    }
    return high;
  };
  CHECK(first("approximate", "", ElementType::kFloat32, 3) == 40000);
  CHECK(first("approximate", "", ElementType::kInt8, 128) == 40000);
  CHECK(first("approximate", "", ElementType::kFloat32, 100) == 12800);
  CHECK(first("approximate", "", ElementType::kFloat16, 200) == 12800);
  CHECK(first("approximate", "", ElementType::kFloat32, 1536) == 8192);
  CHECK(first("ivfrabitq", "recall=0.9", ElementType::kFloat32, 100) == 12800);
  CHECK(first("ivfrabitq", "", ElementType::kFloat32, 1536) == 40000);
  CHECK(first("ivfrabitq", "lists=100 recall=0.9", ElementType::kFloat32, 1536) == 6400);
  CHECK(first("ivfpq", "recall=0.9", ElementType::kFloat32, 1536) == 40000);
  CHECK(first("ivfflat", "recall=0.9", ElementType::kFloat32, 1536) == 40000);
}

TEST_CASE("ivf training: tells how far it is, and stops when asked") {
  const auto device = cpu::make_cpu_device();
  use_worker_threads();
  const Floats rows = clustered(2000, 16, 20, 1, 2);
  const auto index =
      make(spec("ivfpq", "lists=20 opq=1"), {ElementType::kFloat32, 16, Distance::kL2});
  std::vector<std::string> told;
  double before = -1;
  const Progress progress = [&](const std::string& what, double done) {
    told.push_back(what);
    CHECK(done > before);
    CHECK(done < 1);
    before = done;
  };
  index->trained()->train(*device, rows.view(), 2000, nullptr, progress);
  CHECK(told.front() == "training: k-means 1 of 14");
  CHECK(std::ranges::count(told, "training: rotation 12 of 12") == 1);
  CHECK(std::ranges::count(told, "training: codebooks 18 of 18") == 1);
  CHECK(told.back() == "training: what codes tell 4 of 4");

  const auto grouped =
      make(spec("ivfflat", "lists=300"), {ElementType::kFloat32, 16, Distance::kL2});
  told.clear();
  before = -1;
  grouped->trained()->train(*device, rows.view(), 2000, nullptr, progress);
  CHECK(std::ranges::count(told, "training: k-means 3 of 3") == 1);
  CHECK(told.back() == "training: what lists hold 2 of 2");

  for (const auto& learns : {index->trained(), grouped->trained()}) {
    for (const int asks : {0, 1, 5, 20, 60}) {
      StopAfter stop(asks);
      const Interruptible asked(&stop);
      ErrorKind kind = ErrorKind::kOk;
      try {
        learns->train(*device, rows.view(), 2000, &stop, {});
      } catch (const Error& error) {
        kind = error.kind();
      }
      CHECK(kind == ErrorKind::kInterrupted);
    }
  }
}

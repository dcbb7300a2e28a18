// Many lists in groups, of other than RaBitQ codes.
#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <vector>

#include "compute/ivf.h"
#include "index/ivf/model.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::testing;

namespace {

constexpr std::uint32_t kDim = 64, kRows = 51000, kQueries = 100, kK = 10;

// A model with its buffers and a run of all rows.
class Searched {
 public:
  Searched(compute::Device& device, const index::InvertedModel& model, const Floats& rows)
      : device_(device), model_(model) {
    const Bytes codes = model.encode(device, rows.view(), nullptr, nullptr);
    const index::CodedBlock coded{span_of(codes), kRows};
    run_ = model.make_run({&coded, 1});
    bytes_ = resident(run_.bytes.data(), run_.bytes.size());
    vectors_ = resident(rows.values.data(), rows.values.size() * sizeof(float));
    block_.vectors = vectors_.get();
    block_.rows = block_.live_rows = kRows;
    const compute::IvfShape& shape = model.shape();
    centroids_ = resident(model.centroids(),
                          (std::size_t{shape.lists} + shape.groups) * kDim * sizeof(float));
    coarse_ = resident(model.coarse()->bytes.data(), model.coarse()->bytes.size());
    if (shape.has_codebooks()) {
      codebooks_ = resident(model.codebooks(), shape.codewords() * kDim * sizeof(float));
    }
  }

  // Rowids that each query finds.
  std::vector<std::set<RowId>> find(Distance distance, const Floats& queries,
                                    bool in_groups) const {
    std::vector<float> model_queries(queries.values.size());
    model_.to_model_space(queries.view(), model_queries.data());
    const compute::IvfRun run{bytes_.get(), run_.positions, run_.longest, {&block_, 1}};
    compute::IvfWork work;
    work.distance = distance;
    work.queries = queries.view();
    work.model_queries = model_queries.data();
    work.model = model_.buffers();
    work.model.centroids = centroids_.get();
    work.model.coarse = coarse_.get();
    work.model.codebooks = codebooks_.get();
    if (!in_groups) work.model.shape.groups = 0;
    work.runs = {&run, 1};
    work.nprobe = 20;
    work.refine = 4;
    compute::HitTable best(kQueries, kK);
    device_.ivf_nearest(work, best).raise();
    std::vector<std::set<RowId>> found(kQueries);
    for (std::size_t q = 0; q < kQueries; ++q) {
      for (const Hit& hit : best.sorted(q)) found[q].insert(hit.rowid);
    }
    return found;
  }

 private:
  std::shared_ptr<const compute::Buffer> resident(const void* data, std::size_t size) const {
    std::shared_ptr<const compute::Buffer> buffer;
    device_.make_resident({nullptr, static_cast<const std::byte*>(data), size}, &buffer).raise();
    return buffer;
  }

  compute::Device& device_;
  const index::InvertedModel& model_;
  index::Run run_;
  std::shared_ptr<const compute::Buffer> bytes_, vectors_, centroids_, coarse_, codebooks_;
  compute::Block block_;
};

// One element far larger than the others, which codes tell only where they are rotated.
Floats uneven(std::size_t rows, std::uint64_t seed) {
  Floats out = clustered(rows, kDim, 400, 1, seed);
  for (std::size_t i = 0; i < rows; ++i) out.values[i * kDim] *= 40;
  return out;
}

}  // namespace

TEST_CASE("ivf groups: lists that are found in groups hold what those hold that are compared all") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = uneven(kRows, 2), queries = uneven(kQueries, 3);
  const Learnt learnt =
      learn(*device, spec("ivfpq", "lists=50000 m=4 bits=4 opq=1"), Distance::kL2, rows.view());
  const index::InvertedModel& model = *learnt.model;
  REQUIRE(model.shape().groups > 1);
  const Searched searched(*device, model, rows);
  const auto all = searched.find(Distance::kL2, queries, false);
  const auto grouped = searched.find(Distance::kL2, queries, true);
  std::size_t same = 0, wanted = 0;
  for (std::size_t q = 0; q < kQueries; ++q) {
    wanted += all[q].size();
    for (const RowId row : grouped[q]) same += all[q].count(row);
  }
  CHECK(wanted == kQueries * kK);
  CHECK(static_cast<double>(same) >= 0.99 * static_cast<double>(wanted));

  const auto written = model.bytes();
  const auto reopened = index::inverted(learnt.index->trained()->open(written));
  const compute::IvfShape& shape = reopened->shape();
  CHECK(shape.groups == model.shape().groups);
  CHECK(std::ranges::equal(span_of(reopened->coarse()->bytes), span_of(model.coarse()->bytes)));
  const std::size_t measured = model.calibration()->bytes().size();
  CHECK(reopened->memory() == written.size() + measured + reopened->coarse()->bytes.size());
  const auto refused = [&](std::size_t at, std::uint32_t value) {
    return is_refused([&] { learnt.index->trained()->open(with_number(written, at, value)); });
  };
  constexpr std::size_t kVersion = 8;
  CHECK_FALSE(refused(kVersion, 3));
  for (const std::uint32_t version : {0u, 1u, 2u, 4u, 5u}) CHECK(refused(kVersion, version));
  const std::size_t begins = 64 + (std::size_t{shape.lists} + shape.groups) * kDim * 4;
  CHECK(refused(begins + 4, 0));
  CHECK(refused(begins + shape.groups * 4, shape.lists + 1));
  CHECK(refused(begins - 4, 0x7fc00000u));  // a centroid of a group that is no number

  const auto again = index::with_calibration(model, {});
  const auto opened = index::inverted(learnt.index->trained()->open(again->bytes()));
  CHECK(opened->shape().groups == shape.groups);
}

TEST_CASE("ivf groups: models of RaBitQ codes have the same version with groups as without") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(3000, 8, 40, 1, 2);
  for (const bool grouped : {false, true}) {
    const Learnt learnt = learn(*device, spec("ivfrabitq", grouped ? "lists=700" : "lists=7"),
                                Distance::kL2, rows.view());
    REQUIRE((learnt.model->shape().groups > 1) == grouped);
    std::vector<std::byte> bytes(learnt.model->bytes().begin(), learnt.model->bytes().end());
    CHECK(bytes[8] == std::byte{6});
    const std::size_t lists = grouped ? learnt.model->coarse()->bytes.size() : 0;
    CHECK(learnt.model->memory() == bytes.size() + learnt.model->calibration()->bytes().size() + lists);
    for (const std::byte older : {std::byte{2}, std::byte{4}, std::byte{5}}) {
      bytes[8] = older;
      CHECK(learnt.index->trained()->open(bytes) != nullptr);
    }
    for (const std::byte other : {std::byte{0}, std::byte{3}, std::byte{7}}) {
      bytes[8] = other;
      CHECK_THROWS_AS(learnt.index->trained()->open(bytes), Error);
    }
  }
}

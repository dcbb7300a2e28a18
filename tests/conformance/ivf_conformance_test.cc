#include <algorithm>
#include <doctest/doctest.h>
#include <limits>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "tests/conformance/ivf_cases.h"
#include "tests/support/conformance_tiles.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;
using namespace warplite::testing::ivf;

TEST_CASE("ivf: every coding gives the reference's hits") {
  const Restore restore;
  std::uint64_t n = 0;
  for (const Coding& coding : codings()) {
    for (int round = 0; round < 15; ++round) check_everywhere(make_case(coding, n++));
  }
}

// Lists of the nearest among candidates that are found by codes.

TEST_CASE("ivf: lists in groups, of whole vectors and of every coding") {
  const Restore restore;
  std::uint64_t n = 7500;
  for (const Coding& coding : codings()) {
    for (const std::uint32_t groups : {1u, 4u, 19u}) {
      for (int round = 0; round < 6; ++round) {
        Case c = make_case(coding, n++);
        c.shape.lists = turn<std::uint32_t>({70, 33, 160}, n);
        c.shape.groups = groups;
        c.nprobe = std::min(turn<std::uint32_t>({1, 4, 20, 1000}, n / 2), c.shape.lists);
        check_everywhere(c);
      }
    }
  }
}

TEST_CASE("ivf: queries that probe lists by their contrast") {
  const Restore restore;
  std::uint64_t n = 7000;
  for (const Coding& coding : codings()) {
    for (const std::uint32_t groups : {0u, 4u}) {
      for (const std::uint32_t nprobe : {7u, 8u, 30u}) {
        Case c = make_case(coding, n++);
        c.shape.lists = 40;
        c.shape.groups = groups;
        c.nprobe = nprobe;
        c.contrast = true;
        check_everywhere(c);
      }
    }
  }
}

// Where the nearest lists are empty, they tell a device nothing of how far to look.

// A device may look at the rows of a list some at a time.

// More rows than anything keeps of a query before it drops the worst.

TEST_CASE("ivf: every distance, element type and refinement") {
  const Restore restore;
  std::uint64_t n = 1000;
  for (Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
    for (ElementType type : number_types()) {
      for (std::size_t refine : {0, 1, 8}) {
        for (const Coding& coding : {Coding{0, 8, 40}, Coding{8, 8, 4}, Coding{8, 4, 4}}) {
          Case c = make_case(coding, n++);
          c.distance = distance;
          c.shape.listwise = c.shape.listwise && distance != Distance::kInnerProduct;
          c.type = type;
          c.refine = refine;
          c.vectors = refine != 0 || coding.m == 0;
          check_everywhere(c);
        }
      }
    }
  }
}

TEST_CASE("ivf: whole vectors whose squares are below float32's range") {
  const Restore restore;
  std::uint64_t n = 5000;
  for (std::uint32_t dim : {1u, 16u, 40u, 129u}) {
    for (std::size_t queries : {1, 5, 70}) {
      Case c = make_case({0, 8, dim}, n++);
      c.distance = Distance::kL2;
      c.type = ElementType::kFloat32;
      c.data = Data::kTiny;
      c.list_rows = {300, 33, 64};
      c.nprobe = c.shape.lists;
      c.queries = queries;
      c.k = turn<std::size_t>({1, 3, 10}, n);
      check_everywhere(c);
    }
  }
}

TEST_CASE("ivf: ties straddle the number of candidates") {
  const Restore restore;
  std::uint64_t n = 2000;
  for (std::size_t refine : {0, 1, 2, 8}) {
    for (std::size_t k : {1, 7, 30}) {
      for (const Coding& coding : {Coding{4, 8, 4}, Coding{4, 4, 4}, Coding{0, 8, 8}}) {
        for (Data data : {Data::kFewCodes, Data::kZeros}) {
          Case c = make_case(coding, n++);
          c.data = data;
          c.refine = refine;
          c.k = k;
          c.vectors = refine != 0 || coding.m == 0;
          c.filter = 0;
          c.list_rows = {100, 33, 64};
          c.nprobe = c.shape.lists;
          check_everywhere(c);
        }
      }
    }
  }
}

TEST_CASE("ivf: giant lists among small ones") {
  const Restore restore;
  std::uint64_t n = 3000;
  for (const Coding& coding :
       {Coding{16, 8, 2}, Coding{16, 4, 2}, Coding{9, 4, 2}, Coding{0, 8, 32}}) {
    for (std::size_t queries : {1, 2, 70}) {
      Case c = make_case(coding, n++);
      c.shape.lists = 40;
      c.list_rows = {9000, 1, 0, 40, 300, 7};
      c.list_rows.resize(40, 31);
      c.queries = queries;
      c.nprobe = 39;
      c.k = 25;
      c.runs = 2;
      c.blocks = 3;
      c.filter = turn({0, 3}, n);
      check_everywhere(c);
    }
  }
}

TEST_CASE("ivf: lists much longer than tables") {
  const Restore restore;
  for (const Coding& coding : {Coding{2, 8, 4}, Coding{2, 4, 4}, Coding{0, 8, 8}}) {
    for (std::size_t refine : {0, 4}) {
      Case c = make_case(coding, 4000 + refine);
      c.shape.lists = 3;
      c.list_rows = {5000, 3000};
      c.queries = 70;
      c.nprobe = 3;
      c.refine = refine;
      c.vectors = true;
      c.runs = 1;
      c.filter = 0;
      check_everywhere(c);
    }
  }
}

// Nothing is asked of such results, but that they are rows, and that the next search is right.

TEST_CASE("ivf: a device outlives queries and rows that are no numbers") {
  const Restore restore;
  const float kNone[] = {std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
  for (const Coding& coding :
       {Coding{8, 8, 4}, Coding{8, 4, 4}, Coding{0, 8, 32}, Coding{8, 5, 4}}) {
    for (std::size_t queries : {1, 5, 70}) {
      Case c = make_case(coding, 7);
      if (coding.bits == 5) {  // RaBitQ
        c.shape.bits = 4;
        c.shape.planes = 3;
      }
      c.queries = queries;
      c.shape.lists = 300;  // enough for products of many
      c.list_rows = {3, 0, 1};
      c.nprobe = 20;
      c.filter = 0;
      World world(c);
      std::vector<float> numbers(queries * c.shape.dim);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = i % 3 == 0 ? kNone[i / c.shape.dim % 3] : 3.4e38f;
      }
      on_each_device(ivf_of(c.shape), [&](const Candidate& candidate) {
        Device& device = *candidate.device;
        IvfWork work = world.work_on(device);
        work.model_queries = numbers.data();
        HitTable best(queries, c.k);
        const Status status = device.ivf_nearest(work, best);
        CHECK_MESSAGE(status.ok(), status.message);
        std::vector<Assigned> lists(queries);
        AssignWork assign;
        assign.rows = numbers.data();
        assign.count = queries;
        assign.dim = c.shape.dim;
        assign.lists = c.shape.lists;
        assign.centroids = work.model.centroids;
        assign.out = lists.data();
        const Status assigned = device.assign(assign);
        CHECK_MESSAGE(assigned.ok(), assigned.message);
        for (const Assigned& one : lists) CHECK(one.list < c.shape.lists);
        world.check(candidate);
      });
    }
  }
}

// Takes some gigabytes: by name alone, --no-skip.

TEST_CASE("ivf: more rows than one pass over vectors may have" * doctest::skip()) {
  const Restore restore;
  constexpr std::uint32_t kLists = 4096, kEach = 33000, kBlockRows = 65536;
  constexpr std::uint32_t kRows = kLists * kEach;  // above 2^27
  const IvfShape shape{4, kLists, 1, 8};
  const IvfLayout at = IvfLayout::of(shape, kRows);
  Random random(11);
  auto bytes = std::make_shared<Bytes>(at.size);
  auto* const begins = reinterpret_cast<std::uint32_t*>(bytes->data() + at.begins);
  auto* const ordinals = reinterpret_cast<std::uint32_t*>(bytes->data() + at.ordinals);
  auto* const bias = reinterpret_cast<float*>(bytes->data() + at.bias);
  auto* const codes = reinterpret_cast<std::uint32_t*>(bytes->data() + at.codes);
  for (std::uint32_t list = 0; list <= kLists; ++list) begins[list] = list * kEach;
  for (std::uint32_t p = 0; p < kRows; ++p) {
    ordinals[p] = p % kEach * kLists + p / kEach;
    const std::uint64_t bits = random();
    bias[p] = static_cast<float>(bits >> 40) * 0x1p-24f;
    codes[p] = static_cast<std::uint32_t>(bits & 255);
  }
  std::vector<Block> blocks;
  for (std::uint32_t first = 0; first < kRows; first += kBlockRows) {
    Block block;
    block.rows = block.live_rows = std::min(kBlockRows, kRows - first);
    block.id = static_cast<std::uint32_t>(blocks.size());
    block.rowids = {static_cast<RowId>(first), nullptr};
    blocks.push_back(block);
  }
  const auto floats = [&](std::size_t n) {
    std::vector<float> all(n);
    for (float& x : all) x = static_cast<float>(random() >> 40) * 0x1p-24f;
    return all;
  };
  const auto centroids = bytes_of(floats(kLists * 4)), codebooks = bytes_of(floats(256 * 4));
  const std::vector<float> mean(4), queries = floats(3 * 4);
  std::vector<std::vector<Hit>> expected;
  for (const Candidate& candidate : conformance_devices()) {
    if (candidate.asks != 0 && &candidate != &conformance_devices().front()) continue;
    candidate.prepare();
    Device& device = *candidate.device;
    std::shared_ptr<const Buffer> lists, words, run;
    REQUIRE(device.make_resident({centroids, centroids->data(), centroids->size()}, &lists).ok());
    REQUIRE(device.make_resident({codebooks, codebooks->data(), codebooks->size()}, &words).ok());
    REQUIRE(device.make_resident({bytes, bytes->data(), bytes->size()}, &run).ok());
    const IvfRun one{run.get(), kRows, kEach, blocks};
    IvfWork work;
    work.queries = {reinterpret_cast<const std::byte*>(queries.data()), 3, 4,
                    ElementType::kFloat32};
    work.model_queries = queries.data();
    work.model.shape = shape;
    work.model.centroids = lists.get();
    work.model.codebooks = words.get();
    work.model.mean = mean.data();
    work.runs = {&one, 1};
    work.nprobe = 64;
    HitTable best(3, 10);
    const Status status = device.ivf_nearest(work, best);
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < 3; ++q) {
      if (&candidate == &conformance_devices().front()) expected.push_back(best.list(q));
      REQUIRE(best.sorted(q).size() == expected[q].size());
      for (std::size_t i = 0; i < expected[q].size(); ++i) {
        CHECK(best.sorted(q)[i].rowid == expected[q][i].rowid);
        CHECK(best.sorted(q)[i].distance == expected[q][i].distance);
      }
    }
  }
}

TEST_CASE("ivf: a search adds to what the table holds") {
  const Restore restore;
  Case c = make_case({8, 8, 4}, 3);
  c.queries = 2;
  c.filter = 0;
  c.nprobe = c.shape.lists;
  World world(c);
  on_each_device(ivf_of(c.shape), [&](const Candidate& candidate) {
    HitTable two(c.queries, 2);
    REQUIRE(candidate.device->ivf_nearest(world.work_on(*candidate.device), two).ok());
    expect_added(c.queries, two.sorted(0)[0].rowid, [&](HitTable& best) {
      return candidate.device->ivf_nearest(world.work_on(*candidate.device), best);
    });
  });
}

// Beside what the nearest of them hold, the others have the rest; and lists say which they are.

TEST_CASE("ivf: lists that were searched before are left out") {
  const Restore restore;
  constexpr std::uint32_t kBefore = 8;
  for (const Coding& coding :
       {Coding{0, 8, 16}, Coding{4, 8, 4}, Coding{4, 4, 4}, Coding{4, 5, 4}}) {
    for (const std::size_t queries : {1, 70}) {
      Case c = make_case(coding, 8000 + queries);
      if (coding.bits == 5) {  // RaBitQ
        c.shape.bits = 4;
        c.shape.planes = 3;
      }
      c.shape.lists = 40;
      c.list_rows = {30, 0, 70, 7};
      c.nprobe = 20;
      c.queries = queries;
      c.filter = 3;
      c.refine = 1000;
      c.vectors = true;
      World world(c);
      on_each_device(ivf_of(c.shape), [&](const Candidate& candidate) {
        if (candidate.device->own_memory()) return;
        const auto search = [&](std::uint32_t searched, std::uint32_t nprobe) {
          IvfWork work = world.work_on(*candidate.device);
          std::vector<ProbedList> probed(queries * nprobe);
          const std::vector<std::uint32_t> before(queries, searched);
          work.searched = before.data();
          work.nprobe = nprobe;
          work.probed = probed.data();
          HitTable best(queries, c.k);
          REQUIRE(candidate.device->ivf_nearest(work, best).ok());
          for (std::size_t i = 0; i < probed.size(); ++i) {
            CHECK(probed[i].list < c.shape.lists);
            if (i % nprobe != 0) CHECK(probed[i - 1].a <= probed[i].a);
          }
          return best;
        };
        HitTable all = search(0, c.nprobe), near = search(0, kBefore),
                 far = search(kBefore, c.nprobe);
        for (std::size_t q = 0; q < queries; ++q) {
          near.row(q).merge(std::move(far.row(q)));
          expect_hits(all.sorted(q), near.sorted(q), q);
        }
      });
    }
  }
}

TEST_CASE("ivf: a cancelled search ends soon and says so") {
  const Restore restore;
  for (const Coding& coding : {Coding{64, 8, 1}, Coding{64, 4, 1}, Coding{0, 8, 64}}) {
    Case c = make_case(coding, 5);
    c.shape.lists = 20;
    c.list_rows = {2000};
    c.runs = c.blocks = 1;
    c.vectors = true;
    c.queries = 1;
    c.refine = 1;
    World world(c);
    on_each_device(ivf_of(c.shape), [&](const Candidate& candidate) {
      CountingCancellation cancellation(candidate.asks);
      constexpr std::size_t kQueries = 20000;
      const std::vector<std::byte> queries(kQueries * bytes_per_vector(c.type, c.shape.dim));
      const std::vector<float> model_queries(kQueries * c.shape.dim, 0.25f);
      IvfWork work = world.work_on(*candidate.device);
      work.nprobe = c.shape.lists;
      work.queries.data = queries.data();
      work.queries.rows = kQueries;
      work.model_queries = model_queries.data();
      work.cancellation = &cancellation;
      HitTable best(kQueries, 10);
      expect_interrupted([&] { return candidate.device->ivf_nearest(work, best); });
    });
  }
}

TEST_CASE("ivf: shapes that make no sense are not offered") {
  for (const Candidate& candidate : conformance_devices()) {
    CHECK_FALSE(candidate.device->supports_ivf({0, 4, 0, 8}));
    CHECK_FALSE(candidate.device->supports_ivf({10, 4, 3, 8}));
    CHECK_FALSE(candidate.device->supports_ivf({12, 4, 3, 5}));
    CHECK_FALSE(candidate.device->supports_ivf({12, 0, 3, 8}));
  }
}

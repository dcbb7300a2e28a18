// k-means over rows that are divided among GPUs: the same bits as on one, and on the CPU, whatever
// room they have, and when one is lost. GPUs are fakes.
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/residency/residency.h"
#include "engine/training/clusters.h"
#include "engine/training/passed_rows.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/vector_table.h"

namespace warplite::engine {
namespace {

using testing::FakeGpus;

constexpr int kSegments = 24, kClusters = 12;
constexpr std::uint32_t kElements = 16;

// Of sizes so unlike that their sum depends on the order in which it is taken.
float unlike(std::mt19937& random) {
  const auto any = static_cast<float>(random() % 2001) / 1000 - 1;
  return std::ldexp(any, static_cast<int>(random() % 50));
}

// A table in 24 segments, and some rows that are pending.
struct Table : VectorTable {
  explicit Table(unsigned seed) : VectorTable(seed, kSegments * 64, kElements, 64, unlike) {
    insert(30);
  }
  Clusters clusters(const std::string& device, compute::Cancellation* cancellation = nullptr) {
    ClusterRequest request;
    request.clusters = kClusters;
    request.passes = 4;
    request.device = device;
    request.cancellation = cancellation;
    return cluster_rows(*view(), request, {});
  }
  // In a pass.
  double compared() { return 4.0 * kElements * kClusters * (kSegments * 64 + 30); }
};

void check_same(const Clusters& found, const Clusters& expected) {
  CHECK(found.sizes == expected.sizes);
  CHECK(found.centroids == expected.centroids);
}

std::vector<std::size_t> passes(FakeGpus& gpus, std::size_t count) {
  std::vector<std::size_t> passes;
  for (std::size_t i = 0; i < count; ++i) passes.push_back(gpus[i].tallies.exchange(0));
  return passes;
}

using Ends = std::vector<std::size_t>;

}  // namespace

TEST_CASE("things are divided in their order, as equally as room allows") {
  const auto divided = [](const std::vector<std::size_t>& bytes,
                          const std::vector<std::size_t>& room) {
    return divide_in_order(bytes, room);
  };
  const std::vector<std::size_t> eight(8, 10);
  CHECK(divided(eight, {100}) == Ends{8});
  CHECK(divided(eight, {100, 100}) == Ends{4, 8});
  CHECK(divided(eight, {100, 100, 100}) == Ends{3, 6, 8});
  CHECK(divided(eight, {10, 100, 30}) == Ends{1, 5, 8});
  CHECK(divided(eight, {100, 25, 25}) == Ends{4, 6, 8});
  CHECK(divided(eight, {45, 45}) == Ends{4, 8});
  CHECK(divided(eight, {79}).empty());
  CHECK(divided(eight, {45, 34}).empty());
  CHECK(divided({60, 10, 10}, {100, 100}) == Ends{1, 3});
  CHECK(divided({30, 30, 20}, {60, 20}) == Ends{2, 3});
  CHECK(divided({20, 30, 30}, {60, 20}).empty());
  CHECK(divided({}, {10, 10}) == Ends{0});
}

TEST_CASE("eight GPUs make each pass together, and find the clusters that one and the CPU find") {
  FakeGpus gpus(8);
  gpus.start();
  Table table(1);
  const Clusters expected = table.clusters("cpu");
  REQUIRE(expected.sizes.size() == kClusters);
  check_same(table.clusters("gpu:0"), expected);
  const std::vector<std::size_t> alone = passes(gpus, 8);
  CHECK(alone[0] > 1);
  CHECK(std::accumulate(alone.begin() + 1, alone.end(), std::size_t{0}) == 0);
  Residency::instance().clear();
  for (const char* device : {"gpu", ""}) {
    check_same(table.clusters(device), expected);
    for (const std::size_t each : passes(gpus, 8)) CHECK(each == alone[0]);
  }
  for (int i = 0; i < 8; ++i) CHECK(gpus[i].used == kSegments / 8 * table.segment_bytes());
}

TEST_CASE("GPUs of another model than the first have no share, which would take them longer") {
  FakeGpus gpus(3);
  gpus[1].model = "another";
  gpus.start();
  Table table(7);
  check_same(table.clusters("gpu"), table.clusters("cpu"));
  const std::vector<std::size_t> made = passes(gpus, 3);
  CHECK(made[0] > 0);
  CHECK(made[1] == 0);
  CHECK(made[2] == made[0]);
}

TEST_CASE("a pass takes no more GPUs than it is worth, but for their room") {
  FakeGpus gpus(4);
  gpus.start();
  Table table(2);
  const Clusters expected = table.clusters("cpu");
  for (int i = 0; i < 4; ++i) {
    gpus[i].worthwhile = static_cast<std::size_t>(table.compared() / 2 / 10'000);
  }
  check_same(table.clusters("gpu"), expected);
  std::vector<std::size_t> made = passes(gpus, 4);
  CHECK(made[0] > 0);
  CHECK(made[1] == made[0]);
  CHECK(made[2] + made[3] == 0);

  // No single one holds it then, and no two.
  Residency::instance().set_device_limit(table.bytes() * 2 / 5);
  check_same(table.clusters("gpu"), expected);
  made = passes(gpus, 4);
  CHECK(made[1] == made[0]);
  CHECK(made[2] == made[0]);
  CHECK(made[3] == 0);
  CHECK(gpus[0].mappings + gpus[1].mappings + gpus[2].mappings == 0);

  Residency::instance().clear();
  Residency::instance().set_device_limit(table.bytes() / 5);  // nor all of them: rows are read
  check_same(table.clusters("gpu"), expected);
  for (const std::size_t each : passes(gpus, 4)) CHECK(each == 0);
}

TEST_CASE("GPUs hold as many rows of a pass as each has room for") {
  FakeGpus gpus(3);
  gpus.start();
  Table table(3);
  const Clusters expected = table.clusters("cpu");
  gpus[0].memory = table.segment_bytes() * 3 * 5 / 4 + 5;  // four fifths of it are the budget
  check_same(table.clusters("gpu"), expected);
  for (const std::size_t each : passes(gpus, 3)) CHECK(each > 0);
  CHECK(gpus[0].used == 3 * table.segment_bytes());
  CHECK(gpus[1].used + gpus[2].used == (kSegments - 3) * table.segment_bytes());
  CHECK(gpus[2].used >= kSegments / 3 * table.segment_bytes());

  Residency::instance().clear();
  gpus[1].maps = false;
  gpus[1].fail_uploads = 1000;  // it has less than it says
  check_same(table.clusters("gpu"), expected);
  const std::vector<std::size_t> made = passes(gpus, 3);
  CHECK(made[0] > 0);
  CHECK(made[1] == 0);
  CHECK(made[2] == made[0]);
}

TEST_CASE("a GPU of several that does not add up its rows, or fails, changes nothing") {
  FakeGpus gpus(4);
  gpus.start();
  Table table(4);
  const Clusters expected = table.clusters("cpu");
  for (const int i : {0, 1, 3}) {
    CAPTURE(i);
    gpus[i].flat_only = true;  // the host adds them up when it is the GPU's turn
    check_same(table.clusters("gpu"), expected);
    const std::vector<std::size_t> made = passes(gpus, 4);
    for (int other = 0; other < 4; ++other) CHECK((made[other] == 0) == (other == i));
    gpus[i].flat_only = false;
  }
  for (const int i : {2, 0, 3}) {
    CAPTURE(i);
    gpus[i].failure = ErrorKind::kDevice;
    gpus[i].dies = true;
    gpus[i].fail_searches = 1;
    check_same(table.clusters("gpu"), expected);
    CHECK(gpus[i].lost);
    passes(gpus, 4);
    check_same(table.clusters(""), expected);
    CHECK(passes(gpus, 4)[1] > 0);
  }
  gpus[1].failure = ErrorKind::kDevice;
  gpus[1].fail_searches = 1;
  CHECK_THROWS_AS(table.clusters("gpu"), Error);  // it was the last one
  gpus[1].fail_searches = 1;
  check_same(table.clusters(""), expected);  // the CPU's
}

TEST_CASE("a GPU that is lost in a later pass is left out of those that follow") {
  FakeGpus gpus(3);
  gpus.start();
  Table table(5);
  const Clusters expected = table.clusters("cpu");
  struct Killer : compute::Cancellation {
    explicit Killer(FakeGpus& all) : gpus(all) {}
    bool requested() override {
      if (gpus[1].tallies == 2) {
        gpus[1].failure = ErrorKind::kDevice;
        gpus[1].dies = true;
        gpus[1].fail_searches = 1;
      }
      return false;
    }
    FakeGpus& gpus;
  } killer(gpus);
  check_same(table.clusters("gpu", &killer), expected);
  CHECK(gpus[1].lost);
  const std::vector<std::size_t> made = passes(gpus, 3);
  CHECK(made[1] == 2);
  CHECK(made[0] > made[1] + 1);
}

TEST_CASE("passes on several GPUs are interrupted, whoever waits for its turn") {
  FakeGpus gpus(4);
  gpus.start();
  Table table(6);
  const Clusters expected = table.clusters("cpu");
  struct Impatient : compute::Cancellation {
    explicit Impatient(FakeGpus& all, std::size_t most) : gpus(all), passes(most) {}
    bool requested() override { return gpus[0].tallies >= passes; }
    FakeGpus& gpus;
    const std::size_t passes;
  };
  for (const std::size_t most : {0, 1, 2}) {
    passes(gpus, 4);
    Impatient impatient(gpus, most);
    try {
      table.clusters("gpu", &impatient);
      FAIL("it was not interrupted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kInterrupted);
    }
    CHECK(gpus[3].tallies <= most);
  }
  check_same(table.clusters("gpu"), expected);
}

}  // namespace warplite::engine

// Exact searches of columns for which host memory has no room and GPUs have: compared with brute force over what was
// inserted, and with where the vectors are. GPUs are fakes.
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/residency/residency.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/sql_session.h"
#include "tests/support/typed_table.h"

namespace warplite::engine {
namespace {

using testing::FakeGpu;
using testing::FakeGpus;

// Bytes of a column's vectors that are on a device.
std::size_t held(std::size_t column, const std::string& device) {
  const std::string name = " v" + std::to_string(column);
  std::size_t bytes = 0;
  for (const Residency::Entry& entry : Residency::instance().entries()) {
    if (entry.device == device && entry.owner.ends_with(name)) bytes += entry.bytes;
  }
  return bytes;
}

// GPUs, and a table of which host memory has room for half of a column's vectors.
struct Cramped {
  explicit Cramped(unsigned seed, std::size_t count = 1, std::size_t column = 0)
      : gpus(count), table((gpus.start(), seed)), bytes(table.bytes(column)) {
    residency.clear();
    residency.set_limit(bytes / 2);
  }
  FakeGpus gpus;
  TypedTable table;
  Residency& residency = Residency::instance();
  const std::size_t bytes;
};

TEST_CASE("vectors for which host memory has no room stay on a GPU that has it") {
  for (std::size_t column = 0; column < kTypes.size(); ++column) {
    CAPTURE(column);
    Cramped given(static_cast<unsigned>(column) + 1, 1, column);
    auto& [gpus, table, residency, bytes] = given;
    CHECK(table.right(column, {}));
    CHECK(held(column, "gpu:0") == bytes);
    CHECK(held(column, "cpu") == 0);
    CHECK(residency.used() <= bytes / 2);
    const std::size_t uploaded = gpus[0].uploaded_bytes, operations = gpus[0].operations;
    CHECK(table.all_right(column));
    CHECK(table.all_right(column, "gpu"));
    CHECK(table.right(column, {.queries = 600}));
    CHECK(gpus[0].uploaded_bytes == uploaded);
    CHECK(gpus[0].operations > operations);
    CHECK(held(column, "cpu") == 0);

    // Named devices answer; what another one has it keeps.
    const std::size_t answered = gpus[0].operations;
    CHECK(table.all_right(column, "cpu"));
    CHECK(gpus[0].operations == answered);
    CHECK(table.right(column, {}));
    CHECK(gpus[0].uploaded_bytes == uploaded);

    table.erase(100);
    CHECK(table.all_right(column));
    CHECK(gpus[0].uploaded_bytes == uploaded);
    table.erase(50, true);
    CHECK(table.all_right(column));
    CHECK(gpus[0].uploaded_bytes == uploaded);
    table.commit();
    table.insert(3 * 64);
    CHECK(table.all_right(column));
    CHECK(gpus[0].uploaded_bytes - uploaded <= 8 * (bytes / 20));
    CHECK(held(column, "cpu") <= bytes / 2);

    // Devices keep what they have when sets of it go, and when the host may have more.
    const std::size_t now = gpus[0].uploaded_bytes;
    residency.set_limit(1);
    residency.set_limit(bytes / 2);
    CHECK(table.all_right(column));
    residency.set_limit(0);
    CHECK(table.all_right(column));
    residency.set_limit(bytes / 3);
    CHECK(table.all_right(column));
    CHECK(gpus[0].uploaded_bytes == now);

    residency.set_device_limit(bytes / 2);
    CHECK(table.all_right(column));
    CHECK(table.all_right(column, "gpu"));
    residency.set_device_limit(0);
    CHECK(table.all_right(column));
    CHECK(held(column, "gpu:0") == table.bytes(column));

    // In the middle of a search, whose rest the CPU streams.
    gpus[0].failure = ErrorKind::kDevice;
    gpus[0].dies = true;
    gpus[0].fail_searches = 1;
    CHECK(table.right(column, {}));
    CHECK(gpus[0].lost);
    CHECK(table.all_right(column));
  }
}

TEST_CASE("vectors are not handed over where few of them are wanted, nor to a device that is not worth it") {
  Cramped given(11);
  auto& [gpus, table, residency, bytes] = given;
  gpus[0].worthwhile = std::size_t{1} << 40;
  CHECK(table.all_right(0));
  CHECK(table.all_right(0, "cpu"));
  CHECK(gpus[0].uploads == 0);
  gpus[0].worthwhile = 0;
  CHECK(table.right(0, {.below = 1}));  // rows that are read one by one
  CHECK(gpus[0].uploaded_bytes < bytes / 2);
  CHECK(table.right(0, {}));
  CHECK(held(0, "gpu:0") == bytes);
  const std::size_t uploads = gpus[0].uploads;
  CHECK(table.right(0, {.below = 1}));
  CHECK(gpus[0].uploads == uploads);
}

TEST_CASE("a GPU that has less room than it says, or fails, is not handed vectors for a while") {
  for (const ErrorKind failure : {ErrorKind::kNoMemory, ErrorKind::kDevice}) {
    Cramped given(12);
    auto& [gpus, table, residency, bytes] = given;
    gpus[0].maps = false;
    residency.set_device_limit(std::size_t{1} << 30);
    if (failure == ErrorKind::kNoMemory) {
      gpus[0].memory = bytes / 2;
    } else {
      gpus[0].lost = true;
    }
    CHECK(table.all_right(0));
    gpus[0].memory = std::size_t{1} << 40;
    gpus[0].lost = false;
    CHECK(table.all_right(0));
    if (failure == ErrorKind::kNoMemory) CHECK(held(0, "gpu:0") < bytes);
    CHECK(residency.used() <= bytes);
  }
}

TEST_CASE("while vectors are handed over, a device is lost") {
  for (const bool spread : {false, true}) {
    Cramped given(16, 3);
    auto& [gpus, table, residency, bytes] = given;
    if (spread) residency.set_device_limit(bytes * 3 / 4);
    gpus[0].most_uploads = gpus[1].most_uploads = 5;
    CHECK(table.right(0, {}));
    CHECK(gpus[0].lost);
    CHECK(gpus[1].lost);
    CHECK(gpus[2].searches() == 1);
    CHECK(held(0, "gpu:0") + held(0, "gpu:1") == 0);
    CHECK((held(0, "gpu:2") == bytes) == !spread);
    CHECK(table.all_right(0));
  }
}

TEST_CASE("vectors are spread over GPUs of which none has room for all") {
  FakeGpus gpus(3);
  gpus.start();
  TypedTable table(13);
  Residency& residency = Residency::instance();
  for (std::size_t column = 0; column < kTypes.size(); ++column) {
    CAPTURE(column);
    const std::size_t bytes = table.bytes(column);
    residency.clear();
    residency.set_limit(bytes / 3);
    residency.set_device_limit(bytes / 2);
    CHECK(table.right(column, {}));
    const auto uploaded = [&] {
      return gpus[0].uploaded_bytes + gpus[1].uploaded_bytes + gpus[2].uploaded_bytes;
    };
    const std::size_t once = uploaded();
    CHECK(table.all_right(column));
    CHECK(table.all_right(column, "gpu"));
    CHECK(uploaded() == once);
    std::size_t sum = 0;
    for (const char* device : {"gpu:0", "gpu:1", "gpu:2"}) {
      CHECK(held(column, device) <= bytes / 2);
      CHECK(held(column, device) > 0);
      sum += held(column, device);
    }
    CHECK(sum == bytes);
    CHECK(held(column, "cpu") == 0);
    CHECK(table.right(column, {}, "gpu:1"));  // alone it has no room
    CHECK(table.all_right(column));
  }
  gpus[1].failure = ErrorKind::kDevice;
  gpus[1].dies = true;
  gpus[1].fail_searches = 1;
  CHECK(table.right(0, {}));
  CHECK(table.all_right(0));
}

TEST_CASE("connections share what a GPU was handed") {
  Cramped given(14);
  auto& [gpus, table, residency, bytes] = given;
  IvfSession other(table.path(), options_of_all_types(), false);
  const auto both_right = [&](const TypedQuestion& ask) {
    std::string queries;
    for (std::size_t q = 0; q < ask.queries; ++q) queries += table.vector(0);
    const Answer expected = table.brute_force(0, ask, queries);
    CHECK(table.found(table.collection(), 0, ask, queries, "") == expected);
    CHECK(table.found(other.table(), 0, ask, queries, "") == expected);
  };
  both_right({});
  CHECK(gpus[0].uploaded_bytes <= bytes + 4 * (bytes / 20));  // rows that are not sealed, too
  for (int i = 0; i < 3; ++i) {
    const std::size_t uploaded = gpus[0].uploaded_bytes;
    table.insert(64);
    table.erase(20);
    both_right({});
    both_right({.below = 20});
    both_right({.within = 8});
    CHECK(gpus[0].uploaded_bytes - uploaded <= 6 * (bytes / 20));
  }
  CHECK(held(0, "cpu") == 0);
}

TEST_CASE("vectors of another table's rows stay on a GPU, once they were read") {
  FakeGpus gpus(1);
  gpus.start();
  const testing::SqlSession session(":memory:");
  session.must_run(
      "CREATE TABLE docs(id INTEGER PRIMARY KEY, e);"
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 3000)"
      "INSERT INTO docs SELECT x, iif(x % 9 = 0, NULL, randomblob(4096)) FROM c;"
      "CREATE VIRTUAL TABLE t USING warp(content=docs, content_rowid=id, e INT8[4096])");
  const auto found = [&](const std::string& device) {
    return session.must_run("SELECT rowid, distance FROM warp_knn_search('t', 'e', "
                            "(SELECT e FROM docs WHERE id = 7), 20, '{\"device\":\"" + device + "\"}')");
  };
  std::vector<std::string> expected = found("cpu");
  Residency::instance().clear();
  Residency::instance().set_limit(std::size_t{6} << 20);
  for (int i = 0; i < 2; ++i) CHECK(found("gpu") == expected);
  const std::size_t uploaded = gpus[0].uploaded_bytes;
  for (const char* device : {"gpu", "cpu", "auto", "gpu"}) CHECK(found(device) == expected);
  CHECK(gpus[0].uploaded_bytes == uploaded);
  session.must_run("DELETE FROM docs WHERE id = 8; UPDATE docs SET e = randomblob(4096) WHERE id < 6;"
                   "UPDATE docs SET e = (SELECT e FROM docs WHERE id = 7) WHERE id = 2900");
  expected = found("cpu");
  CHECK(expected[1] == "2900|0.0");
  for (int i = 0; i < 2; ++i) CHECK(found("gpu") == expected);
}

// Of one table, on which much happens.
void try_out(unsigned seed, int steps, const std::function<void(std::size_t)>& disturb) {
  TypedTable table(seed);
  std::mt19937 random(seed);
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    const std::size_t column = random() % kTypes.size();
    if (random() % 4 == 0) disturb(table.bytes(column));
    const auto change = random() % 12;
    if (change == 0) table.insert(static_cast<int>(random() % 100));
    if (change == 1) table.erase(static_cast<int>(random() % 50), random() % 2 == 0);
    if (change == 2) table.commit();
    const char* devices[] = {"", "", "auto", "gpu:1", "gpu", "cpu"};
    const std::int64_t belows[] = {kNumbers, kNumbers, 20, 1};
    TypedQuestion ask{.k = std::size_t{1} << random() % 12, .queries = 1 + random() % 4, .below = belows[random() % 4]};
    if (random() % 5 == 0) ask.queries = 300;
    const std::string device = devices[random() % std::size(devices)];
    try {
      if (!table.right(column, ask, device)) FAIL_CHECK("wrong, seed " << seed);
    } catch (const Error& error) {  // of a device that was named, and has no room
      if (error.kind() != ErrorKind::kDevice || device.find("gpu") == device.npos) throw;
    }
  }
}

TEST_CASE("whatever becomes of limits and devices, all is found") {
  for (unsigned seed = 100; seed < 102; ++seed) {
    CAPTURE(seed);
    FakeGpus gpus(3);
    gpus.start();
    std::mt19937 random(seed);
    Residency& residency = Residency::instance();
    try_out(seed, 100, [&](std::size_t bytes) {
      FakeGpu& gpu = gpus[random() % 3];
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          return residency.set_limit(bytes / (1 + random() % 5));
        case 3:
          return residency.set_device_limit(bytes * (1 + random() % 6) / 3);
        case 4:
          return residency.clear();
        case 5:
          gpu.fail_uploads = 1 + static_cast<int>(random() % 3);
          return;
        case 6:
          gpu.failure = ErrorKind::kNoMemory;
          gpu.fail_searches = 1;
          return;
        default:
          gpu.maps = random() % 2 == 0;
          gpu.makes_copies = random() % 2 == 0;
      }
    });
  }
}

TEST_CASE("threads hand over, search and evict at once") {
  FakeGpus gpus(2);
  gpus.start();
  std::atomic<int> busy{3};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      try_out(200 + t, 30, [](std::size_t) {});
      --busy;
    });
  }
  std::mt19937 random(17);
  constexpr std::size_t kBytes = 20 * 64 * kElements * 4;
  while (busy > 0) {
    Residency::instance().set_limit(kBytes / (1 + random() % 5));
    Residency::instance().set_device_limit(kBytes * (1 + random() % 6) / 2);
    if (random() % 20 == 0) Residency::instance().clear();
    Residency::instance().entries();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("exact searches through an index that learns stay on the GPU, too") {
  FakeGpus gpus(1);
  gpus.start();
  TemporaryFile file;
  IvfSession session(file.path(), ivf_options(64), true);
  std::mt19937 random(15);
  session.begin();
  session.insert_many(random, 2000);
  session.commit();
  session.begin();
  session.train();
  session.commit();
  Residency& residency = Residency::instance();
  const auto exact = [&](const std::string& device) {
    return ask(*session.table().view(), session.table(), exactly({.k = 20, .device = device}));
  };
  const Hits expected = exact("cpu");
  residency.clear();
  residency.set_limit(2000 * kDim * 4 / 2);
  CHECK(exact("gpu") == expected);
  const std::size_t uploaded = gpus[0].uploaded_bytes;
  for (int i = 0; i < 2; ++i) CHECK(exact("") == expected);
  CHECK(gpus[0].uploaded_bytes == uploaded);
  CHECK(exact("cpu") == expected);
  CHECK(exact("gpu") == expected);
  CHECK(gpus[0].uploaded_bytes == uploaded);
}

}  // namespace
}  // namespace warplite::engine

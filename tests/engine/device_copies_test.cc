// Copies of vectors on devices: what is uploaded, when it is uploaded again, what leaves under a
// memory limit, and what happens to what has no room. GPUs are fakes.
#include <atomic>
#include <thread>

#include "engine/residency/residency.h"
#include "engine/residency/uploader.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/sql_session.h"
#include "tests/support/vector_table.h"

namespace warplite::engine {
namespace {

using testing::FakeGpu;
using testing::FakeGpus;
using testing::SqlSession;

constexpr int kRows = 20 * 64;  // twenty segments
constexpr std::size_t kQueries = 16;

// How many copies on GPUs are in this state.
std::size_t copies(const std::string& state) {
  std::size_t count = 0;
  for (const Residency::Entry& entry : Residency::instance().entries()) {
    count += entry.device != "cpu" && entry.state == state;
  }
  return count;
}

TEST_CASE("a changed row costs the copy of its segment only") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(1, kRows);
  table.ask(kQueries);
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[0].uploaded_bytes == table.bytes());
  const std::size_t before = gpus[0].uploaded_bytes;
  table.change(700);
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));  // pending: handed over with the search
  table.flush();
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[0].uploaded_bytes - before <= 3 * table.segment_bytes());
  const std::size_t after = gpus[0].uploaded_bytes;
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[0].uploaded_bytes - after <= table.segment_bytes());
}

TEST_CASE("connections that see the same unsealed rows share one copy of them") {
  FakeGpus gpus(1);
  gpus.start();
  const testing::TemporaryFile file;
  const SqlSession writer(file.path()), a(file.path()), b(file.path());
  const std::string row = "zeroblob(4)";
  const std::string numbers = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT ";
  writer.must_run("CREATE VIRTUAL TABLE t USING warp(e FLOAT[1])");
  writer.must_run(numbers + "100) INSERT INTO t(e) SELECT " + row + " FROM c");
  const auto uploaded = [&](const SqlSession& session) {
    const std::size_t before = gpus[0].uploaded_bytes;
    CHECK(session.must_run("SELECT count(*) FROM warp_knn_search('t', 'e', " + row +
                           ", 1000, '{\"device\":\"gpu\"}')") ==
          session.must_run("SELECT min(count(*), 1000) FROM t"));
    return gpus[0].uploaded_bytes - before;
  };
  CHECK(uploaded(a) == 100 * sizeof(float));
  CHECK(uploaded(b) == 0);
  writer.must_run("INSERT INTO t(e) VALUES (" + row + ")");
  CHECK(uploaded(b) == 101 * sizeof(float));
  CHECK(uploaded(a) == 0);
  SUBCASE("pending rows are one connection's own") {
    a.must_run("BEGIN; DELETE FROM t WHERE rowid = 5; INSERT INTO t(e) VALUES (" + row + ")");
    CHECK(uploaded(a) > 0);
    CHECK(uploaded(b) == 0);
    a.must_run("ROLLBACK");
    CHECK(uploaded(a) == 0);
  }
  SUBCASE("segments stay as they are while rows come and go beside them") {
    writer.must_run(numbers + "300000) INSERT INTO t(e) SELECT " + row + " FROM c");
    CHECK(uploaded(a) > 200000 * sizeof(float));
    writer.must_run("INSERT INTO t(e) VALUES (" + row + ")");
    CHECK(uploaded(a) < 100000 * sizeof(float));
    CHECK(uploaded(b) == 0);
    writer.must_run("DELETE FROM t WHERE rowid = 1");  // of a segment
    CHECK(uploaded(a) == 0);
    CHECK(uploaded(b) == 0);
  }
}

TEST_CASE("copies count against their device, not against the host") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(2, kRows);
  table.ask(kQueries);
  table.nearest_ten("cpu");
  const std::size_t used = Residency::instance().used();
  table.nearest_ten();
  CHECK(Residency::instance().used() == used);
  CHECK(gpus[0].used == table.bytes());
  CHECK(copies("resident") == 20);
  Residency::instance().clear();
  CHECK(gpus[0].used == 0);
}

TEST_CASE("under a limit the least recently used copies leave") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable a(3, kRows), b(4, kRows), c(5, kRows);
  for (VectorTable* table : {&a, &b, &c}) table->ask(kQueries);
  Residency& residency = Residency::instance();
  residency.set_device_limit(2 * a.bytes());
  for (VectorTable* table : {&a, &b, &a, &c}) {
    CHECK(table->nearest_ten() == table->nearest_ten("cpu"));
  }
  CHECK(gpus[0].uploaded_bytes == 3 * a.bytes());
  CHECK(gpus[0].most_used == 2 * a.bytes());
  a.nearest_ten();
  c.nearest_ten();
  CHECK(gpus[0].uploaded_bytes == 3 * a.bytes());
  b.nearest_ten();
  CHECK(gpus[0].uploaded_bytes == 4 * a.bytes());
  CHECK(gpus[0].mappings == 0);
  residency.set_device_limit(a.bytes() / 2);
  CHECK(gpus[0].used <= a.bytes() / 2);
  CHECK(gpus[0].used > 0);
  CHECK(gpus[0].operations == 7);
}

TEST_CASE("without a limit four fifths of the device's memory are used") {
  FakeGpus gpus(1);
  VectorTable table(6, kRows);
  table.ask(kQueries);
  gpus[0].memory = table.bytes();
  gpus.start();
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[0].used == table.bytes() * 4 / 5);
  CHECK(gpus[0].mappings == 4);
}

TEST_CASE("what has no room is read in place, until there is room") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(7, kRows);
  table.ask(kQueries);
  Residency& residency = Residency::instance();
  residency.set_device_limit(table.bytes() / 2);
  const Found expected = table.nearest_ten("cpu");
  for (int i = 0; i < 3; ++i) {
    CHECK(table.nearest_ten() == expected);
    CHECK(gpus[0].uploads == 10);
    CHECK(gpus[0].mappings == 10);
    CHECK(copies("resident") == 10);
    CHECK(copies("mapped") == 10);
  }
  CHECK(table.within_some() == table.within_some("cpu"));
  CHECK(gpus[0].operations == 4);
  const SqlSession session(":memory:");
  CHECK(session.must_run("SELECT state, count(*), sum(bytes) FROM warp_residency() "
                         "WHERE device = 'gpu:0' GROUP BY state ORDER BY 1") ==
        std::vector<std::string>{"mapped|10|0",
                                 "resident|10|" + std::to_string(table.bytes() / 2)});
  session.must_run("SELECT warp_config('gpu_memory_limit', 0)");
  CHECK(copies("mapped") == 0);
  CHECK(table.nearest_ten() == expected);
  CHECK(copies("resident") == 20);
}

TEST_CASE("what is read in place is copied once others have not been used for longer") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable a(12, kRows), b(13, kRows);
  a.ask(kQueries);
  b.ask(kQueries);
  Residency::instance().set_device_limit(a.bytes() * 3 / 2);
  a.nearest_ten();
  {
    const auto busy = a.hold(gpus[0]);  // as a search that runs meanwhile
    CHECK(b.nearest_ten() == b.nearest_ten("cpu"));
    CHECK(gpus[0].mappings == 10);
  }
  // In turn, the two leave each other alone.
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    a.nearest_ten();
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    b.nearest_ten();
    CHECK(gpus[0].uploads == 30);
    CHECK(gpus[0].mappings == 10);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  CHECK(b.nearest_ten() == b.nearest_ten("cpu"));
  CHECK(copies("mapped") == 0);
  CHECK(copies("resident") == 30);
  CHECK(gpus[0].most_used == a.bytes() * 3 / 2);
}

TEST_CASE("without room or reading in place a forced search goes group by group") {
  FakeGpus gpus(1);
  gpus.start();
  gpus[0].maps = false;
  VectorTable table(8, kRows);
  table.ask(kQueries);
  Residency& residency = Residency::instance();
  const Found expected = table.nearest_ten("cpu");
  residency.set_device_limit(3 * table.segment_bytes());
  CHECK(table.nearest_ten("gpu") == expected);
  CHECK(gpus[0].operations == 7);
  CHECK(gpus[0].searches() == 1);
  CHECK(gpus[0].most_used == 3 * table.segment_bytes());
  CHECK(table.within_some("gpu") == table.within_some("cpu"));
  // By itself the engine leaves such a table to the CPU, and copies nothing in vain.
  const std::size_t uploads = gpus[0].uploads;
  CHECK(table.nearest_ten() == expected);
  CHECK(Uploader::instance().wait_idle(std::chrono::seconds(60)));
  CHECK(gpus[0].uploads == uploads);
  CHECK(gpus[0].searches() == 2);
  residency.set_device_limit(1);
  CHECK(table.nearest_ten() == expected);
  CHECK_THROWS_AS(table.nearest_ten("gpu"), Error);
}

TEST_CASE("an upload that finds no memory makes room and is tried again") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable a(9, kRows), b(10, kRows);
  a.ask(kQueries);
  b.ask(kQueries);
  CHECK(a.nearest_ten() == a.nearest_ten("cpu"));
  gpus[0].fail_uploads = 1;
  CHECK(b.nearest_ten() == b.nearest_ten("cpu"));
  CHECK(gpus[0].operations == 2);
  // Some of a's copies made room.
  CHECK(gpus[0].used > b.bytes());
  CHECK(gpus[0].used <= b.bytes() + a.bytes() / 2);
  CHECK(gpus[0].mappings == 0);
  gpus[0].fail_uploads = 2;
  CHECK(a.nearest_ten() == a.nearest_ten("cpu"));
  CHECK(gpus[0].mappings == 1);
  CHECK(gpus[0].operations == 3);
}

// A GPU's memory is everyone's: another process may take what a limit leaves to this one.
TEST_CASE("a device whose memory another process takes reads in place, or the CPU answers") {
  for (const bool maps : {true, false}) {
    FakeGpus gpus(1);
    gpus.start();
    gpus[0].maps = maps;
    VectorTable a(21, kRows), b(22, kRows);
    a.ask(kQueries);
    b.ask(kQueries);
    CHECK(a.nearest_ten() == a.nearest_ten("cpu"));
    gpus[0].fail_uploads = 1 << 30;
    for (int i = 0; i < 2; ++i) {
      CHECK(b.nearest_ten() == b.nearest_ten("cpu"));
      CHECK(b.within_some() == b.within_some("cpu"));
      CHECK(a.nearest_ten() == a.nearest_ten("cpu"));
    }
    CHECK((gpus[0].mappings > 0) == maps);
    // Memory for rows is there again, but none for what a search needs beside them.
    gpus[0].fail_uploads = 0;
    CHECK(Uploader::instance().wait_idle(std::chrono::seconds(60)));
    gpus[0].fail_searches = 1;
    CHECK(a.nearest_ten() == a.nearest_ten("cpu"));
    CHECK(gpus[0].fail_searches == 0);
    CHECK(b.nearest_ten() == b.nearest_ten("cpu"));
    CHECK(Uploader::instance().wait_idle(std::chrono::seconds(60)));
  }
}

TEST_CASE("what cannot be read in place is no reason not to read the rest so") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(14, kRows);
  table.ask(kQueries);
  const Found expected = table.nearest_ten("cpu");
  Residency::instance().set_device_limit(table.bytes() / 2);
  gpus[0].fail_mappings = 1;
  CHECK(table.nearest_ten("gpu") == expected);
  CHECK(gpus[0].mappings > 0);
  CHECK(table.nearest_ten("gpu") == expected);
  CHECK(copies("mapped") == 10);
}

TEST_CASE("what a device makes of its copies is within the limit, all or none of it") {
  FakeGpus gpus(1);
  gpus.start();
  gpus[0].makes_copies = true;
  VectorTable a(15, kRows), b(16, kRows);
  a.ask(kQueries);
  b.ask(kQueries);
  Residency& residency = Residency::instance();
  const auto held = [&] { return residency.holding(gpus[0], {}).held; };
  residency.set_device_limit(a.bytes() * 5 / 4);
  CHECK(a.nearest_ten() == a.nearest_ten("cpu"));
  CHECK(gpus[0].copies_refused == 1);
  CHECK(held() == a.bytes());
  residency.set_device_limit(a.bytes() * 3 / 2);
  CHECK(a.nearest_ten() == a.nearest_ten("cpu"));
  CHECK(gpus[0].copies_refused == 1);
  CHECK(held() == a.bytes() * 3 / 2);
  CHECK(a.nearest_ten() == a.nearest_ten("cpu"));
  CHECK(held() == a.bytes() * 3 / 2);
  // They go with the copies, as few as are enough.
  CHECK(b.nearest_ten() == b.nearest_ten("cpu"));
  CHECK(gpus[0].copies_refused == 1);
  CHECK(held() == b.bytes() * 3 / 2);
  residency.set_device_limit(a.bytes() * 2);
  a.nearest_ten();
  CHECK(held() <= a.bytes() * 2);
  CHECK(held() > a.bytes() * 3 / 2);
  residency.clear();
  CHECK(held() == 0);
}

TEST_CASE("a limit on the host's memory holds with a GPU too") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(11, kRows);
  table.ask(kQueries);
  const Found expected = table.nearest_ten("cpu");
  Residency& residency = Residency::instance();
  residency.set_limit(5 * table.segment_bytes());
  residency.set_device_limit(10 * table.segment_bytes());  // neither has room for all
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].operations == 0);
  CHECK(table.nearest_ten("gpu") == expected);
  CHECK(gpus[0].operations > 1);
  CHECK(residency.used() <= 6 * table.segment_bytes());
}

TEST_CASE("threads search, upload and evict at once") {
  FakeGpus gpus(2);
  gpus.start();
  constexpr std::size_t kThreads = 4;
  std::vector<std::string> faults(kThreads);
  std::atomic<std::size_t> done{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        VectorTable table(20 + t, kRows);
        for (int round = 0; round < 30; ++round) {
          table.ask(1 + (round + t) % 3 * 8);
          const Found expected = table.nearest_ten("cpu");
          for (const char* device : {"", "gpu:0", "gpu:1", "gpu"}) {
            if (table.nearest_ten(device) != expected) faults[t] = device;
          }
          if (round % 7 == 0) table.change(1 + round * 40);
          if (round % 10 == 0) table.flush();
        }
      } catch (const std::exception& error) {
        faults[t] = error.what();
      }
      ++done;
    });
  }
  // Meanwhile limits come and go, and copies with them.
  const std::size_t table = kRows * 64 * 4;
  for (std::size_t i = 0; done < kThreads; ++i) {
    Residency::instance().set_device_limit(table + table / 4 * (i % 20));
    if (i % 50 == 0) Residency::instance().clear();
    Residency::instance().entries();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& fault : faults) CHECK(fault == "");
  CHECK(gpus[0].operations > 0);
  CHECK(gpus[1].operations > 0);
  CHECK(gpus[0].most_used <= 8 * table);
}

TEST_CASE("uploads in the background and searches share the copies they make") {
  FakeGpus gpus(1);
  gpus.start();
  for (unsigned seed = 30; seed < 40; ++seed) {
    VectorTable table(seed, kRows);
    table.ask(kQueries);
    const Found expected = table.nearest_ten("cpu");
    const std::size_t before = gpus[0].uploaded_bytes;
    table.request_uploads(gpus[0]);
    CHECK(table.nearest_ten() == expected);
    REQUIRE(Uploader::instance().wait_idle(std::chrono::seconds(60)));
    CHECK(gpus[0].uploaded_bytes - before == table.bytes());
  }
}

}  // namespace
}  // namespace warplite::engine

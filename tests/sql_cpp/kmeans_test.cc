// k-means where a device with memory of its own adds up the rows that it holds: the CPU's clusters,
// and the same where it has no room, fails, or does not do so. GPUs are fakes.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

// Rows in segments and in the tail, some of them without a vector, some deleted, many alike.
void fill(const SqlSession& session, const std::string& column) {
  session.must_run("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, " + column + ")");
  const auto insert = [&](int first, int count) {
    session.must_run(
        "WITH RECURSIVE n(i) AS (SELECT " + std::to_string(first) +
        " UNION ALL SELECT i + 1 FROM n WHERE i + 1 < " + std::to_string(first + count) +
        ") INSERT INTO t(id, e) SELECT i, CASE WHEN i % 11 <> 0 THEN json_array(i * i % 31, "
        "i % 17 - 8, i % 7 + 1, i * 3 % 101 - 50) END FROM n");
  };
  insert(0, 9000);
  session.must_run("INSERT INTO t(t) VALUES ('optimize')");
  insert(20000, 100);
  session.must_run("DELETE FROM t WHERE id % 13 = 5");
}

std::vector<std::string> clusters(const SqlSession& session, int count, const std::string& device) {
  return session.must_run("SELECT cluster, hex(centroid), size FROM warp_kmeans('t', 'e', " +
                          std::to_string(count) + ", 4, '{\"device\":\"" + device + "\"}')");
}

}  // namespace

TEST_CASE("k-means on a device that adds up rows itself gives the CPU's clusters") {
  for (const char* column : {"e FLOAT[4]", "e FLOAT[4] distance=cosine", "e FLOAT16[4] distance=ip",
                             "e INT8[4] distance=cosine", "e BFLOAT16[4]"}) {
    CAPTURE(std::string(column));
    FakeGpus gpus(1);
    gpus.start();
    FakeGpu& gpu = gpus[0];
    const SqlSession session(":memory:");
    fill(session, column);
    for (const int count : {1, 5, 300}) {
      CAPTURE(count);
      const std::vector<std::string> expected = clusters(session, count, "cpu");
      CHECK(!expected.empty());
      const std::size_t before = gpu.tallies;
      CHECK(clusters(session, count, "gpu") == expected);
      CHECK(gpu.tallies > before);
    }
  }
}

TEST_CASE("k-means where the device has no room for the rows, or does not add them up") {
  FakeGpus gpus(1);
  gpus.start();
  FakeGpu& gpu = gpus[0];
  const SqlSession session(":memory:");
  fill(session, "e FLOAT[4]");
  const std::vector<std::string> expected = clusters(session, 20, "cpu");
  gpu.flat_only = true;
  CHECK(clusters(session, 20, "gpu") == expected);
  gpu.flat_only = false;
  gpu.memory = 4096;  // not even a segment
  for (const bool maps : {true, false}) {
    gpu.maps = maps;
    CHECK(clusters(session, 20, "gpu") == expected);
  }
  gpu.memory = std::size_t{1} << 40;
  CHECK(gpu.tallies == 0);
  gpu.fail_uploads = 1;
  CHECK(clusters(session, 20, "gpu") == expected);
}

}  // namespace warplite::testing

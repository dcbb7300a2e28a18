// Which device answers a search: while a GPU starts, once it is there, when it is not worth it,
// when it is asked for by name, when it fails. GPUs are fakes; answers are compared with the CPU's.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "engine/residency/uploader.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/sql_session.h"
#include "tests/support/vector_table.h"

namespace warplite::engine {
namespace {

using testing::FakeGpu;
using testing::FakeGpus;
using testing::SqlSession;

constexpr int kRows = 2000;
constexpr std::size_t kQueries = 16;  // enough to be worth starting a GPU

// The message of what `search` throws, or "".
template <typename Search>
std::string error_of(const Search& search) {
  try {
    search();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the CPU answers while a GPU starts, and then the GPU does") {
  FakeGpus gpus(1);
  VectorTable table(1, kRows);
  table.ask(kQueries);
  gpus.start_passes.close();
  CHECK(gpus.state() == "not started");
  const Found expected = table.nearest_ten("cpu");
  CHECK(gpus.state() == "not started");
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus.state() == "starting");
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].operations == 0);
  gpus.start_passes.open();
  gpus.start();
  CHECK(gpus.state() == "ready");
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].operations == 1);
  CHECK(gpus[0].searches() == 1);
  CHECK(gpus[0].uploaded_bytes == table.bytes());
  CHECK(table.within_some() == table.within_some("cpu"));
  CHECK(gpus[0].operations == 2);
  CHECK(gpus[0].uploaded_bytes == table.bytes());
}

TEST_CASE("little work stays on the CPU and starts nothing") {
  FakeGpus gpus(1);
  VectorTable table(2, kRows);
  table.ask(1);
  table.nearest_ten();
  CHECK(gpus.state() == "not started");
  gpus.start();
  gpus[0].worthwhile = std::size_t{1} << 30;
  table.nearest_ten();
  CHECK(gpus[0].operations == 0);
  gpus[0].worthwhile = table.bytes();
  table.nearest_ten();
  CHECK(gpus[0].operations == 1);
}

TEST_CASE("a device asked for by name is started, waited for, and used") {
  FakeGpus gpus(2);
  VectorTable table(3, kRows);
  table.ask(1);
  gpus[0].worthwhile = gpus[1].worthwhile = std::size_t{1} << 40;
  const Found expected = table.nearest_ten("cpu");
  CHECK(table.nearest_ten("gpu:1") == expected);
  CHECK(gpus[0].operations == 0);
  CHECK(gpus[1].operations == 1);
  CHECK(table.nearest_ten("gpu") == expected);
  CHECK(gpus[0].operations == 1);
  CHECK(table.nearest_ten("auto") == expected);
  CHECK(gpus[0].operations + gpus[1].operations == 2);
  CHECK(contains(error_of([&] { table.nearest_ten("gpu:7"); }), "gpu:7"));
  CHECK(contains(error_of([&] { table.nearest_ten("gpu:x"); }), "gpu:x"));
  set_default_device("gpu:1");
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[1].operations == 2);
  CHECK(contains(error_of([] { set_default_device("gpu:2"); }), "gpu:2"));
  CHECK(default_device() == "gpu:1");
}

TEST_CASE("why there is no GPU is said to whoever asks for one") {
  FakeGpus gpus(0, "the driver is asleep");
  VectorTable table(4, 200);
  table.ask(1);
  const Found expected = table.nearest_ten();
  CHECK(contains(error_of([&] { table.nearest_ten("gpu"); }), "the driver is asleep"));
  CHECK(contains(error_of([] { set_default_device("gpu:0"); }), "the driver is asleep"));
  CHECK(default_device() == "auto");
  CHECK(table.nearest_ten() == expected);
  const SqlSession session(":memory:");
  CHECK(session.must_run("SELECT name, state, usable FROM warp_devices()")[0] ==
        "gpu|the driver is asleep|0");
}

TEST_CASE("a query that waits for a GPU can be interrupted") {
  struct Impatient : compute::Cancellation {
    bool requested() override { return ++asked > 3; }
    int asked = 0;
  } impatient;
  FakeGpus gpus(1);
  gpus.start_passes.close();
  VectorTable table(5, 200);
  table.ask(1);
  SearchRequest request = table.request("gpu");
  request.cancellation = &impatient;
  CHECK(error_of([&] { table.nearest_ten(request); }) == "interrupted");
}

TEST_CASE("a table is copied in the background while the CPU answers") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(6, 17 * 1024, 1024, 1024);  // more than a search copies by itself
  table.ask(1);
  const Found expected = table.nearest_ten("cpu");
  gpus[0].uploads_pass.close();
  CHECK(table.nearest_ten() == expected);
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].operations == 0);
  gpus[0].uploads_pass.open();
  REQUIRE(Uploader::instance().wait_idle(std::chrono::seconds(60)));
  CHECK(gpus[0].uploaded_bytes == table.bytes());
  CHECK(gpus[0].operations == 0);
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].operations == 1);
  CHECK(gpus[0].uploaded_bytes == table.bytes());
}

TEST_CASE("a search that finds no memory is tried again, then left to the CPU") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(7, kRows);
  table.ask(kQueries);
  const Found expected = table.nearest_ten("cpu");
  gpus[0].fail_searches = 1;
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].searches() == 1);
  gpus[0].fail_searches = 2;
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].searches() == 1);
  gpus[0].fail_searches = 2;
  CHECK(contains(error_of([&] { table.nearest_ten("gpu"); }), "gpu:0: it failed"));
  set_default_device("gpu");
  gpus[0].fail_searches = 2;
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].searches() == 1);
}

TEST_CASE("a lost device is left alone") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(8, kRows);
  table.ask(kQueries);
  const Found expected = table.nearest_ten("cpu");
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].used == table.bytes());
  gpus[0].failure = ErrorKind::kDevice;
  gpus[0].dies = true;
  gpus[0].fail_searches = 1;
  const std::size_t operations = gpus[0].operations;
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].used == 0);
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].operations == operations);
  CHECK(contains(error_of([&] { table.nearest_ten("gpu:0"); }), "gpu:0 (lost)"));
  const SqlSession session(":memory:");
  CHECK(session.must_run("SELECT name, state, usable, searches FROM warp_devices()")[0] ==
        "gpu:0|lost|0|1");
}

TEST_CASE("an interrupted search is not answered by another device") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(9, kRows);
  table.ask(kQueries);
  gpus[0].failure = ErrorKind::kInterrupted;
  gpus[0].fail_searches = 1;
  CHECK(error_of([&] { table.nearest_ten(); }) == "it failed");
}

TEST_CASE("a forked child does without the GPU") {
  FakeGpus gpus(1);
  gpus.start();
  VectorTable table(10, kRows);
  table.ask(kQueries);
  const Found expected = table.nearest_ten();
  REQUIRE(gpus[0].operations == 1);
  VectorTable other(11, kRows);
  other.request_uploads(gpus[0]);
  REQUIRE(Uploader::instance().wait_idle(std::chrono::seconds(60)));
  const pid_t child = fork();
  if (child == 0) {
    compute::set_thread_count(1);  // the thread sanitizer allows no new ones here
    const bool same = table.nearest_ten() == expected;
    const bool alone = gpus[0].operations == 1;
    const bool says_so = contains(error_of([&] { table.nearest_ten("gpu"); }), "forked");
    Residency::instance().clear();
    const bool leaves_buffers = gpus[0].used == table.bytes() + other.bytes();
    _exit(same && alone && says_so && leaves_buffers ? 0 : 1);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(table.nearest_ten() == expected);
  CHECK(gpus[0].operations == 2);
}

}  // namespace
}  // namespace warplite::engine

// Searches on several devices at once: blocks spread over devices that are too small, queries over
// devices that each hold everything. GPUs are fakes; answers are compared with the CPU's.
#include <string>

#include "engine/residency/residency.h"
#include "engine/residency/uploader.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/vector_table.h"

namespace warplite::engine {
namespace {

using testing::FakeGpus;

constexpr int kRows = 20 * 64;

TEST_CASE("one of two devices is enough for what it has room for") {
  FakeGpus gpus(2);
  gpus.start();
  VectorTable table(1, kRows);
  table.ask(16);
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[0].operations == 1);
  CHECK(gpus[1].operations == 0);
  CHECK(gpus[1].uploads == 0);
}

TEST_CASE("a table too large for one device is spread over two") {
  FakeGpus gpus(2);
  gpus.start();
  VectorTable table(2, kRows);
  table.ask(16);
  Residency::instance().set_device_limit(table.bytes() * 3 / 5);
  for (int i = 0; i < 3; ++i) {
    table.ask(16);
    CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
    CHECK(table.within_some() == table.within_some("cpu"));
  }
  CHECK(gpus[0].uploaded_bytes + gpus[1].uploaded_bytes == table.bytes());
  CHECK(gpus[0].used == table.bytes() / 2);
  CHECK(gpus[1].used == table.bytes() / 2);
  CHECK(gpus[0].mappings + gpus[1].mappings == 0);
  CHECK(gpus[0].searches() == 6);
  CHECK(gpus[1].searches() == 6);
  table.insert(30);  // pending
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(table.nearest_ten("gpu:1") == table.nearest_ten("cpu"));
}

TEST_CASE("too large even for both, the rest is read in place") {
  FakeGpus gpus(2);
  gpus.start();
  VectorTable table(3, kRows);
  table.ask(16);
  Residency::instance().set_device_limit(table.bytes() / 4);
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[0].used == table.bytes() / 4);
  CHECK(gpus[1].used == table.bytes() / 4);
  CHECK(gpus[0].mappings + gpus[1].mappings == 10);
}

TEST_CASE("many queries are divided among devices that hold the table") {
  FakeGpus gpus(2);
  gpus.start();
  VectorTable table(4, 300);
  table.ask(1500);
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[0].queries == 750);
  CHECK(gpus[1].queries == 750);
  CHECK(table.within_some() == table.within_some("cpu"));
  table.ask(1000);
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[1].operations == 2);
}

TEST_CASE("when one of two devices fails, the other one answers") {
  FakeGpus gpus(2);
  gpus.start();
  VectorTable table(5, 300);
  table.ask(1500);
  const Found expected = table.nearest_ten("cpu");
  for (std::size_t i : {0, 1}) {
    gpus[i].failure = ErrorKind::kDevice;
    gpus[i].fail_searches = 1;
    CHECK(table.nearest_ten() == expected);
    CHECK(gpus[i].searches() == i);
    CHECK(gpus[1 - i].searches() == 1);
  }
  gpus[1].dies = true;
  gpus[1].fail_searches = 1;
  CHECK(table.nearest_ten("gpu") == expected);
  CHECK(table.nearest_ten() == expected);  // without the lost one
  CHECK(gpus[0].searches() == 3);
  CHECK(gpus[1].searches() == 1);
  gpus[0].failure = ErrorKind::kDevice;
  gpus[0].fail_searches = 1;
  CHECK(table.nearest_ten() == expected);  // the CPU's answer
  CHECK(gpus[0].searches() == 3);
}

TEST_CASE("a search on two devices is interrupted on both") {
  struct Impatient : compute::Cancellation {
    bool requested() override { return true; }
  } impatient;
  FakeGpus gpus(2);
  gpus.start();
  VectorTable table(6, 300);
  table.ask(2000);
  table.nearest_ten();
  SearchRequest request = table.request("");
  request.cancellation = &impatient;
  CHECK_THROWS_AS(table.nearest_ten(request), Error);
}

}  // namespace
}  // namespace warplite::engine

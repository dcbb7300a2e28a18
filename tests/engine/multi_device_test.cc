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

TEST_CASE("what one device reads in place goes to another that has room") {
  FakeGpus gpus(2);
  gpus.start();
  VectorTable table(9, kRows);
  table.ask(16);
  Residency::instance().set_device_limit(table.bytes() * 3 / 5);
  CHECK(table.nearest_ten("gpu:0") == table.nearest_ten("cpu"));
  CHECK(gpus[0].used == table.bytes() * 3 / 5);
  CHECK(gpus[0].mappings > 0);
  for (int i = 0; i < 2; ++i) CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[0].used == table.bytes() * 3 / 5);
  CHECK(gpus[1].used == table.bytes() * 2 / 5);
  CHECK(gpus[1].mappings == 0);
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
  table.ask(500);
  CHECK(table.nearest_ten() == table.nearest_ten("cpu"));
  CHECK(gpus[1].operations == 2);
}

TEST_CASE("eight devices share queries; one that is lost or has no room is left out") {
  FakeGpus gpus(8);
  gpus.start();
  VectorTable table(7, kRows);
  table.ask(2400);
  const Found expected = table.nearest_ten("cpu");
  for (const std::string device : {"", "gpu"}) {
    for (const std::size_t share : gpus.shares([&] { CHECK(table.nearest_ten(device) == expected); })) {
      CHECK(share == 300);
    }
  }
  for (int i = 1; i < 8; ++i) CHECK(gpus[i].twins == gpus[i].uploads);  // copied from the first
  for (int i = 0; i < 8; ++i) gpus[i].worthwhile = 10'000;  // 786 MB are compared: worth two
  const auto two = gpus.shares([&] { CHECK(table.nearest_ten() == expected); });
  CHECK(two[0] == 1200);
  CHECK(two[1] == 1200);
  for (int i = 0; i < 8; ++i) gpus[i].worthwhile = 0;
  const std::size_t uploads = gpus[4].uploads;
  table.insert(30);  // pending: the segments stay where they are
  const Found more = table.nearest_ten("cpu");
  CHECK(gpus.shares([&] { CHECK(table.nearest_ten() == more); })[4] == 300);
  CHECK(gpus[4].uploads == uploads + 1);

  gpus[3].failure = ErrorKind::kDevice;
  gpus[3].dies = true;
  gpus[3].fail_searches = 1;
  gpus[5].maps = false;
  gpus[5].memory = 1000;
  Residency::instance().clear();
  CHECK(table.nearest_ten() == more);  // in the middle of which one is lost
  const auto shares = gpus.shares([&] { CHECK(table.nearest_ten() == more); });
  CHECK(shares[3] == 0);
  CHECK(shares[5] == 0);
  for (const int i : {0, 1, 2, 4, 6, 7}) CHECK(shares[i] == 400);
}

TEST_CASE("a table is spread over devices by the room that each has") {
  FakeGpus gpus(8);
  VectorTable table(8, kRows);
  table.ask(16);
  for (int i = 0; i < 8; ++i) {  // four fifths of it are the budget: 20 segments go into 22
    gpus[i].memory = table.segment_bytes() * (i < 6 ? 2 : 5) * 5 / 4 + 5;
  }
  gpus.start();
  const Found expected = table.nearest_ten("cpu");
  for (int round = 0; round < 2; ++round) CHECK(table.nearest_ten() == expected);
  std::size_t used = 0;
  for (int i = 0; i < 8; ++i) {
    used += gpus[i].used;
    CHECK(gpus[i].used >= table.segment_bytes() * (i < 6 ? 1 : 4));
    CHECK(gpus[i].used <= table.segment_bytes() * (i < 6 ? 2 : 5));
    CHECK(gpus[i].uploaded_bytes == gpus[i].used);
    CHECK(gpus[i].mappings == 0);
  }
  CHECK(used == table.bytes());
  gpus[7].failure = ErrorKind::kDevice;  // with it goes room for its part, which is read in place
  gpus[7].dies = true;
  gpus[7].fail_searches = 1;
  CHECK(table.nearest_ten() == expected);
  CHECK(table.nearest_ten() == expected);
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

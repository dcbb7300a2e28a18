// Searches by codes on devices with memory of their own: what is copied, and who answers when a
// device cannot. GPUs are fakes.
#include <string>

#include "engine/residency/residency.h"
#include "engine/residency/uploader.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/ivf_table.h"

namespace warplite::engine {
namespace {

using testing::FakeGpu;
using testing::FakeGpus;

// A trained table of several segments.
struct Table {
  Table() : session(file.path(), ivf_options(128), true), random(23) {
    session.begin();
    session.insert_many(random, 2000);
    session.train();
    session.commit();
  }
  Hits found(const std::string& device, std::size_t column = 1) {
    return ask(*session.table().view(), session.table(),
               {.column = column, .k = 20, .nprobe = 2, .device = device});
  }

  TemporaryFile file;
  IvfSession session;
  std::mt19937 random;
};

TEST_CASE("codes are copied to a device once, and found there again") {
  FakeGpus gpus(1);
  gpus.start();
  Table table;
  for (const std::size_t column : {0u, 1u}) {
    const Hits expected = table.found("cpu", column);
    const std::size_t operations = gpus[0].ivf_operations;
    CHECK(table.found("", column) == expected);
    CHECK(gpus[0].ivf_operations == operations + 1);
    const std::size_t uploaded = gpus[0].uploaded_bytes;
    CHECK(table.found("", column) == expected);
    CHECK(table.found("gpu:0", column) == expected);
    // Of other views too, but for the rows that are not sealed.
    table.session.begin();
    table.session.insert_many(table.random, 1);
    CHECK(table.found("", column) == table.found("cpu", column));
    CHECK(gpus[0].uploaded_bytes < uploaded + 1000);
    table.session.rollback();
  }
  Residency::instance().clear();
  CHECK(gpus[0].used == 0);
}

TEST_CASE("a new segment costs its own run, not those before") {
  FakeGpus gpus(1);
  gpus.start();
  Table table;
  table.found("");
  const std::size_t uploaded = gpus[0].uploaded_bytes;
  table.session.begin();
  table.session.insert_many(table.random, 130);
  table.session.commit();
  CHECK(table.found("") == table.found("cpu"));
  const std::size_t more = gpus[0].uploaded_bytes - uploaded;
  CHECK(more > 0);
  CHECK(more < uploaded / 2);
}

TEST_CASE("the CPU searches by codes when a device fails, is full or does not know how") {
  FakeGpus gpus(1);
  gpus.start();
  Table table;
  const Hits expected = table.found("cpu");
  gpus[0].searches_ivf = false;
  CHECK(table.found("") == expected);
  CHECK_THROWS_AS(table.found("gpu:0"), Error);
  gpus[0].searches_ivf = true;
  gpus[0].ivf_operations = 0;  // training has measured what codes tell

  gpus[0].fail_searches = 1;  // for want of memory: it is asked again
  CHECK(table.found("") == expected);
  CHECK(gpus[0].ivf_operations == 1);
  gpus[0].fail_searches = 2;
  CHECK(table.found("") == expected);
  CHECK(gpus[0].ivf_operations == 1);

  Residency::instance().clear();
  Residency::instance().set_device_limit(gpus[0].uploaded_bytes / 8);
  CHECK(table.found("") == expected);  // part of it is read in place
  CHECK(gpus[0].mappings > 0);
  gpus[0].maps = false;
  Residency::instance().clear();
  Residency::instance().set_device_limit(gpus[0].uploaded_bytes / 8);
  CHECK(table.found("") == expected);
  Residency::instance().set_device_limit(0);

  gpus[0].failure = ErrorKind::kDevice;
  gpus[0].dies = true;
  gpus[0].fail_searches = 1;
  CHECK(table.found("") == expected);
  CHECK(gpus[0].lost);
  CHECK(table.found("") == expected);
}

TEST_CASE("training and coding go on without a device that fails") {
  FakeGpus gpus(1);
  gpus.start();
  Table table;
  gpus[0].failure = ErrorKind::kDevice;
  gpus[0].fail_searches = 3;
  gpus[0].dies = true;
  table.session.begin();
  table.session.train();
  table.session.insert_many(table.random, 300);
  table.session.commit();
  CHECK(gpus[0].lost);
  for (const std::string& fault : table.session.table().integrity_check()) FAIL_CHECK(fault);
}

}  // namespace
}  // namespace warplite::engine

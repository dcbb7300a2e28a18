// Searches by codes on devices with memory of their own: what is copied, and who answers when a
// device cannot. GPUs are fakes.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

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

// Of many lists they are more bytes than the rows of a segment.
TEST_CASE("segments are coded by centroids that the device has from those before") {
  FakeGpus gpus(1);
  gpus.start();
  Table table;
  const auto insert = [&table](int rows) {
    table.session.begin();
    table.session.insert_many(table.random, rows);
    table.session.commit();
  };
  insert(300);
  const std::size_t uploads = gpus[0].uploads, operations = gpus[0].operations;
  insert(1000);
  CHECK(gpus[0].operations > operations);
  CHECK(gpus[0].uploads == uploads);
  CHECK(table.found("") == table.found("cpu"));
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

TEST_CASE("many queries through codes are divided among the devices that hold the table") {
  constexpr std::size_t kGpus = 8;
  FakeGpus gpus(kGpus);
  gpus.start();
  Table table;
  const auto view = table.session.table().view();
  const auto found = [&](const std::string& device, std::size_t column, std::size_t queries) {
    return ask(*view, table.session.table(),
               {.column = column, .k = 20, .queries = queries, .nprobe = 2, .device = device});
  };
  for (const std::size_t column : {0u, 1u}) {
    const Hits expected = found("cpu", column, 8200);
    for (const std::string device : {"", "gpu"}) {
      const auto all = gpus.shares([&] { CHECK(found(device, column, 8200) == expected); });
      for (const std::size_t share : all) CHECK(share >= 1024);
    }
    const auto few = gpus.shares([&] { found("", column, 2000); });
    CHECK(few[0] >= 2000);
    CHECK(std::accumulate(few.begin() + 1, few.end(), std::size_t{0}) == 0);

    // One that is lost in the middle is left out, and so is one that has no room.
    gpus[3].failure = ErrorKind::kDevice;
    gpus[3].fail_searches = 1;
    CHECK(found("", column, 8200) == expected);
    gpus[5].maps = false;
    gpus[5].memory = 1000;
    Residency::instance().clear();
    const auto some = gpus.shares([&] { CHECK(found("", column, 8200) == expected); });
    CHECK(some[5] == 0);
    CHECK(some[4] >= 8200 / 7);
    gpus[5].maps = true;
    gpus[5].memory = std::size_t{1} << 40;
    Residency::instance().clear();
  }
  for (std::size_t i = 0; i < kGpus; ++i) {
    gpus[i].failure = ErrorKind::kDevice;
    gpus[i].dies = true;
    gpus[i].fail_searches = 1;
  }
  CHECK(found("", 1, 8200) == found("cpu", 1, 8200));
}

TEST_CASE("devices that rotate queries are given them as the column has them, and others in model space") {
  FakeGpus gpus(4);
  gpus.start();
  for (std::size_t i = 0; i < 3; ++i) gpus[i].rotates = true;
  for (const Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
    CAPTURE(info(distance).name);
    TableOptions options = ivf_options(128);
    options.vectors[0] = {"coded", distance, {"ivfrabitq", {{"lists", "4"}, {"bits", "3"}}}};
    options.vectors[1] = {"still", distance, {}};
    options.vectors[1].index = {"ivfrabitq", {{"lists", "4"}, {"bits", "3"}, {"rotate", "0"}}};
    TemporaryFile file;
    IvfSession session(file.path(), options, true);
    std::mt19937 random(31);
    session.begin();
    session.insert_many(random, 2000);
    session.train();
    session.commit();
    const auto found = [&](const std::string& device, Question question) {
      question.k = 20;
      question.queries = 4200;
      question.device = device;
      return ask(*session.table().view(), session.table(), question);
    };
    const auto rotated = [&] {
      std::size_t queries = 0;
      for (std::size_t i = 0; i < 4; ++i) queries += gpus[i].rotated.exchange(0);
      return queries;
    };
    CHECK(found("gpu", {.column = 0, .nprobe = 2}) == found("cpu", {.column = 0, .nprobe = 2}));
    // For products the host brings queries to the length of centroids.
    CHECK(rotated() == (distance == Distance::kInnerProduct ? 0 : 4200 / 4 * 3));
    CHECK(found("gpu", {.column = 1, .nprobe = 2}) == found("cpu", {.column = 1, .nprobe = 2}));
    CHECK(rotated() == 0);
    // The host counts rows of lists for a device that does not, and needs queries in model space.
    const Question watched{.column = 0, .below = 25, .recall = 0.5};
    const Hits expected = found("cpu", watched);
    CHECK(found("gpu:0", watched) == expected);
    CHECK(rotated() == 0);
    gpus[0].counts = true;
    CHECK(found("gpu:0", watched) == expected);
    gpus[0].counts = false;
    rotated();
  }
}

TEST_CASE("a GPU compares what a filter leaves where to watch lists would take longer") {
  FakeGpus gpus(1);
  gpus.start();
  Table table;
  const auto view = table.session.table().view();
  const auto looks_into_lists = [&](const Question& question) {
    const std::size_t before = gpus[0].ivf_operations;
    const Hits found = ask(*view, table.session.table(), question);
    const bool looked = gpus[0].ivf_operations != before;
    if (!looked) CHECK(found == ask(*view, table.session.table(), exactly(question)));
    return looked;
  };
  Question many{.column = 1, .k = 20, .queries = 300, .device = "gpu:0", .recall = 0.5};
  many.below = 500;
  CHECK(!looks_into_lists(many));
  many.recall.reset();
  many.nprobe = 2;
  CHECK(looks_into_lists(many));
  many.below.reset();
  CHECK(looks_into_lists(many));
}

TEST_CASE("codes for which host memory has no room stay on a GPU that has it") {
  FakeGpus gpus(2);
  gpus.start();
  TableOptions options = ivf_options(16);
  options.layout.codes_only = true;
  options.vectors[0].index = {"ivfrabitq", {{"lists", "4"}, {"bits", "7"}}};
  options.vectors[1] = options.vectors[2] = options.vectors[0];
  options.vectors[1].name = "b";
  options.vectors[2].name = "c";
  TemporaryFile file;
  IvfSession session(file.path(), options, true);
  std::mt19937 random(29);
  const auto insert = [&](int rows) {
    session.begin();
    session.insert_many(random, rows);
    session.commit();
  };
  insert(8000);
  session.begin();
  session.train();
  session.commit();
  Residency& residency = Residency::instance();
  const auto found = [&](const std::string& device, std::optional<std::int64_t> below = {}) {
    return ask(*session.table().view(), session.table(),
               {.k = 20, .queries = 5, .below = below, .nprobe = 2, .device = device});
  };
  const auto codes_on_host = [&] {
    std::size_t bytes = 0;
    for (const Residency::Entry& entry : residency.entries()) {
      const bool codes = entry.owner.find("codes of segments") != std::string::npos;
      if (codes && entry.device == "cpu") bytes += entry.bytes;
    }
    return bytes;
  };
  const Hits expected = found("cpu"), filtered = found("cpu", 20);
  const std::size_t limit = codes_on_host() * 2 / 3;
  CHECK(found("gpu:0") == expected);
  const std::size_t once = gpus[0].uploaded_bytes;
  residency.set_limit(limit);  // what the GPU has from before stays there
  CHECK(found("gpu:0") == expected);
  CHECK(gpus[0].uploaded_bytes < once + 1000);
  residency.clear();

  for (const char* device : {"gpu:0", "", "gpu:1"}) {
    CAPTURE(device);
    const std::size_t operations = gpus[0].ivf_operations + gpus[1].ivf_operations;
    CHECK(found(device) == expected);
    CHECK(gpus[0].ivf_operations + gpus[1].ivf_operations == operations + 1);
    CHECK(codes_on_host() <= limit);
  }
  const auto uploaded = [&] { return gpus[0].uploaded_bytes - once; };
  std::size_t before = uploaded();
  CHECK(before > limit);
  CHECK(found("gpu:0") == expected);
  CHECK(found("gpu:0", 20) == filtered);
  residency.set_limit(limit * 3 / 4);  // lets go of sets, too
  residency.set_limit(limit);
  CHECK(found("gpu:0") == expected);
  CHECK(uploaded() < before + 1000);
  CHECK(found("cpu") == expected);  // group by group; what the GPU has it keeps
  CHECK(found("gpu:0") == expected);
  CHECK(uploaded() < before + 1000);

  insert(40);  // changes the last run
  before = uploaded();
  const Hits more = found("gpu:0");
  CHECK(uploaded() > before);
  CHECK(uploaded() < before + limit / 2);
  CHECK(found("cpu") == more);
  found("gpu:0");

  gpus[0].failure = ErrorKind::kDevice;
  gpus[0].dies = true;
  gpus[0].fail_searches = 1;
  CHECK(found("") == more);
  CHECK(gpus[0].lost);
  residency.set_limit(0);
  CHECK(found("") == more);
  gpus[1].memory = limit * 9 / 10;  // less than it says; then the CPU does it
  gpus[1].maps = false;
  residency.clear();
  residency.set_device_limit(std::size_t{1} << 30);
  residency.set_limit(limit);
  CHECK(found("") == more);
  const std::size_t tried = gpus[1].uploaded_bytes;
  CHECK(found("") == more);
  CHECK(gpus[1].uploaded_bytes == tried);
  residency.set_device_limit(0);
  residency.set_limit(0);
}

TEST_CASE("rows are spread over GPUs none of which has room for all of them") {
  constexpr std::size_t kGpus = 4;
  FakeGpus gpus(kGpus);
  gpus.start();
  for (std::size_t i = 0; i < kGpus; ++i) gpus[i].counts = true;
  for (const bool codes_only : {false, true}) {
    for (const std::size_t column : {0u, 1u}) {
      CAPTURE(codes_only);
      CAPTURE(column);
      LargeTable table(codes_only);
      std::vector<Question> questions;
      for (const std::size_t queries : {1u, 7u, 3000u}) {
        Question question{.column = column, .k = 20, .queries = queries, .nprobe = 4};
        if (!codes_only) question.refine = kAllOf;
        questions.push_back(question);
        question.below = 15;
        questions.push_back(question);
      }
      std::vector<Hits> expected;
      for (const Question& question : questions) expected.push_back(table.found(question));
      Question watched{.column = column, .k = 20, .queries = 50, .below = 15, .recall = 0.9};
      const Hits near = table.found(watched);
      const std::size_t all = gpus[0].used;
      Residency::instance().clear();
      for (std::size_t i = 0; i < kGpus; ++i) gpus[i].mappings = 0;

      // Of codes alone the host has no room for all, either.
      Residency::instance().set_device_limit(all * 3 / 5);
      if (codes_only) Residency::instance().set_limit(all * 4 / 5);
      for (std::size_t i = 0; i < questions.size(); ++i) {
        CAPTURE(i);
        const auto shares =
            gpus.shares([&] { CHECK(table.found(questions[i]) == expected[i]); });
        CHECK(std::count(shares.begin(), shares.end(), questions[i].queries) >= 2);
      }
      // Each refines what it has, so that more rows may be found.
      const Hits nearer = table.found(watched);
      for (std::size_t q = 0; q < near.size(); ++q) {
        REQUIRE(nearer[q].size() == near[q].size());
        for (std::size_t i = 0; i < near[q].size(); ++i) CHECK(nearer[q][i] <= near[q][i]);
      }
      for (std::size_t i = 0; i < kGpus; ++i) {
        CHECK(gpus[i].mappings == 0);
        CHECK(gpus[i].used <= all * 3 / 5);
      }
      gpus[1].failure = ErrorKind::kDevice;
      gpus[1].fail_searches = 1;
      CHECK(table.found(questions[0]) == expected[0]);
      Residency::instance().set_device_limit(all / 10);  // too little on all of them
      CHECK(table.found(questions[3]) == expected[3]);
      Residency::instance().set_limit(0);
      Residency::instance().set_device_limit(0);
      Residency::instance().clear();
    }
  }
}

TEST_CASE("rows are found once where a GPU that has all of them shares them with another one") {
  FakeGpus gpus(2);
  // The second has room for all rows, and the first has not.
  constexpr std::size_t kLess = 160000, kMore = 208000;
  gpus[0].memory = kLess / 4 * 5;
  gpus[1].memory = kMore / 4 * 5;
  gpus.start();
  LargeTable table(true);
  Question question{.k = 20, .queries = 3, .nprobe = 4, .device = "gpu:1"};
  Residency& residency = Residency::instance();
  residency.clear();
  const Hits expected = table.found(question);
  const std::size_t all = gpus[1].used;
  REQUIRE(all > kLess);
  REQUIRE(all <= kMore);
  for (const char* device : {"gpu", "", "gpu:1", "gpu:0", "gpu"}) {
    question.device = device;
    CHECK(table.found(question) == expected);
  }
  // Where budgets are about what is needed, one device has room by one count and none by another.
  for (std::size_t less = 0; less <= 40000; less += 500) {
    CAPTURE(less);
    residency.set_device_limit(0);
    residency.clear();
    question.device = "gpu:1";
    CHECK(table.found(question) == expected);
    residency.set_device_limit(all + 20000 - less);
    for (const char* device : {"gpu", "", "gpu:1", "gpu"}) {
      question.device = device;
      CHECK(table.found(question) == expected);
    }
  }
  residency.set_device_limit(0);
  residency.clear();
}

TEST_CASE("a GPU that has the codes names the rows whose vectors are read from the file") {
  FakeGpus gpus(1);
  gpus.start();
  gpus[0].counts = true;
  LargeTable table(false);
  Residency& residency = Residency::instance();
  const auto answers = [&](const std::string& device) {
    std::vector<Hits> found;
    for (const std::size_t queries : {1u, 7u, 300u}) {
      Question question{.k = 20, .queries = queries, .nprobe = 4, .refine = 4, .device = device};
      found.push_back(table.found(question));
      question.below = 60;
      found.push_back(table.found(question));
    }
    return found;
  };
  const std::vector<Hits> expected = answers("cpu");
  residency.clear();
  residency.set_limit(100000);  // of codes some 200,000 bytes, of vectors 256,000
  for (int again = 0; again < 2; ++again) {
    CAPTURE(again);
    const std::size_t operations = gpus[0].ivf_operations, uploaded = gpus[0].uploaded_bytes;
    CHECK(answers("gpu:0") == expected);
    CHECK(gpus[0].ivf_operations == operations + expected.size());
    if (again == 1) CHECK(gpus[0].uploaded_bytes < uploaded + 5000);
  }
  residency.set_limit(0);
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

// RaBitQ codes of which a GPU holds what every query reads, and reads the rest in the host's
// memory. GPUs are fakes.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "engine/residency/residency.h"
#include "engine/residency/uploader.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/ivf_table.h"

namespace warplite::engine {
namespace {

using testing::FakeGpus;

std::vector<Question> questions(std::size_t most = 300) {
  std::vector<Question> all;
  for (const std::size_t queries : {std::size_t{1}, std::size_t{7}, most}) {
    Question question{.k = 20, .queries = queries, .nprobe = 4};
    all.push_back(question);
    question.below = 25;
    all.push_back(question);
  }
  return all;
}

std::vector<Hits> answers(LargeTable& table, const std::string& device, std::size_t most = 300) {
  std::vector<Hits> found;
  for (Question& question : questions(most)) {
    question.device = device;
    found.push_back(table.found(question));
  }
  return found;
}

constexpr std::size_t kUnsealed = 1000;  // bytes at most of rows that are in no segment

// Lines of warp_residency() for a GPU in this state, and their bytes.
struct Lines {
  std::size_t count = 0, bytes = 0;
  std::string owner;  // of the last
};
Lines lines(const std::string& device, const std::string& state) {
  Lines lines;
  for (const Residency::Entry& entry : Residency::instance().entries()) {
    if (entry.device != device || entry.state != state) continue;
    ++lines.count;
    lines.bytes += entry.bytes;
    lines.owner = entry.owner;
  }
  return lines;
}

// A table of codes that a fake GPU searches, and what it takes there.
struct Fixture {
  explicit Fixture(std::size_t count) : gpus(count), table(true, "8") {
    gpus.start();
    for (std::size_t i = 0; i < count; ++i) gpus[i].counts = true;
    residency.clear();  // of what it learnt from
    expected = answers(table, "cpu");
    CHECK(answers(table, "gpu:0") == expected);
    all = lines("gpu:0", "resident").bytes;
    residency.clear();
    gpus[0].most_used = 0;
  }

  FakeGpus gpus;
  LargeTable table;
  std::vector<Hits> expected;
  std::size_t all = 0;
  Residency& residency = Residency::instance();
};

TEST_CASE("a GPU without room for codes holds what all queries read, and reads the rest in place") {
  Fixture f(1);
  for (const std::size_t tenths : {9u, 7u, 5u}) {
    CAPTURE(tenths);
    const std::size_t limit = f.all * tenths / 10;
    f.residency.set_device_limit(limit);
    const std::size_t operations = f.gpus[0].ivf_operations;
    for (const char* device : {"gpu:0", "", "gpu"}) CHECK(answers(f.table, device) == f.expected);
    CHECK(f.gpus[0].ivf_operations == operations + 3 * f.expected.size());
    CHECK(f.gpus[0].used <= limit);
    CHECK(f.gpus[0].used > limit / 2);
    CHECK(f.gpus[0].mappings == f.gpus[0].partly_held);
    // It tells what it holds, and has all that it wants.
    const Lines whole = lines("gpu:0", "resident"), partial = lines("gpu:0", "partial");
    CHECK(partial.count > 0);
    CHECK(whole.bytes + partial.bytes <= f.gpus[0].used);
    CHECK(whole.bytes + partial.bytes + kUnsealed >= f.gpus[0].used);
    CHECK(lines("gpu:0", "mapped").count == 0);
    const std::size_t uploads = f.gpus[0].uploads;
    CHECK(answers(f.table, "") == f.expected);
    CHECK(f.gpus[0].uploads == uploads);
  }
  CHECK(f.gpus[0].most_used <= f.all * 9 / 10);
  f.residency.set_device_limit(0);
  CHECK(f.gpus[0].mapped == 0);
  CHECK(answers(f.table, "gpu:0") == f.expected);
  CHECK(lines("gpu:0", "resident").bytes == f.all);
  f.residency.clear();
  CHECK(f.gpus[0].used == 0);
}

TEST_CASE("of few runs as many are held whole as there is room for") {
  Fixture f(1);
  f.residency.set_device_limit(f.all - 1000);
  CHECK(answers(f.table, "gpu:0") == f.expected);
  const Lines partial = lines("gpu:0", "partial");
  CHECK(partial.count == 1);
  CHECK(partial.owner.find("codes of segments 1 to") != std::string::npos);  // not of the newest
  // A filter that leaves few parts wants all of their codes; then all are wanted again.
  const Question few{.k = 5, .below = 1, .nprobe = 4, .device = "gpu:0"};
  for (int times = 0; times < 3; ++times) {
    const std::size_t uploads = f.gpus[0].uploads;
    f.table.found(few);
    CHECK(answers(f.table, "gpu:0") == f.expected);
    CHECK(f.gpus[0].uploads == uploads);
  }
}

TEST_CASE("codes that a GPU held whole make room when it is to hold more of them") {
  Fixture f(1);
  f.residency.set_device_limit(f.all + 1000);
  CHECK(answers(f.table, "gpu:0") == f.expected);
  CHECK(lines("gpu:0", "partial").count == 0);
  std::mt19937 random(5);
  for (int times = 0; times < 2; ++times) {
    f.table.session.begin();
    f.table.session.insert_many(random, 3000);
    f.table.session.commit();
    const std::vector<Hits> more = answers(f.table, "cpu");
    CHECK(answers(f.table, "gpu:0") == more);
    CHECK(answers(f.table, "") == more);
    CHECK(lines("gpu:0", "partial").count > 0);
    CHECK(lines("gpu:0", "mapped").count == 0);
    CHECK(f.gpus[0].used <= f.all + 1000);
  }
  // What runs were before is not kept.
  const auto held = [&] { return f.gpus[0].used + f.gpus[0].mapped; };
  const std::size_t before = held();
  f.residency.clear();
  CHECK(held() == 0);
  answers(f.table, "gpu:0");
  CHECK(held() <= before + kUnsealed);
  CHECK(before <= held() + kUnsealed);
}

TEST_CASE("what is read in place stays in the host's memory, and goes from both") {
  Fixture f(1);
  f.residency.set_device_limit(f.all * 7 / 10);
  CHECK(answers(f.table, "gpu:0") == f.expected);
  CHECK(f.gpus[0].mapped > 0);
  // The host has no room for the codes: the CPU sorts them again for each search.
  f.residency.set_limit(f.all / 8);
  CHECK(f.gpus[0].mapped <= f.all / 8);
  CHECK(answers(f.table, "") == f.expected);
  CHECK(f.gpus[0].mapped <= f.all / 8);
  CHECK(f.gpus[0].used <= f.all * 7 / 10);
  f.residency.set_limit(0);
  CHECK(answers(f.table, "gpu:0") == f.expected);
  CHECK(f.gpus[0].mapped > 0);
}

TEST_CASE("the CPU searches codes that cannot be pinned") {
  Fixture f(1);
  f.residency.set_device_limit(f.all * 7 / 10);
  const std::size_t operations = f.gpus[0].ivf_operations;
  f.gpus[0].fail_mappings = 1 << 30;  // these bytes
  CHECK(answers(f.table, "") == f.expected);
  CHECK_THROWS_AS(answers(f.table, "gpu:0"), Error);
  f.gpus[0].maps = false;  // any bytes
  CHECK(answers(f.table, "") == f.expected);
  CHECK_THROWS_AS(answers(f.table, "gpu:0"), Error);
  CHECK(Uploader::instance().wait_idle(std::chrono::seconds(60)));
  CHECK(f.gpus[0].ivf_operations == operations);
  CHECK(f.gpus[0].mapped == 0);
  CHECK(f.gpus[0].used <= f.all * 7 / 10);
  // Told so, the engine tries no more.
  const std::size_t uploads = f.gpus[0].uploads;
  CHECK(answers(f.table, "") == f.expected);
  CHECK(f.gpus[0].uploads == uploads);
  f.gpus[0].fail_mappings = 0;
  f.gpus[0].maps = true;
  f.residency.set_device_limit(f.all * 7 / 10);
  CHECK(answers(f.table, "gpu:0") == f.expected);
  CHECK(f.gpus[0].ivf_operations == operations + f.expected.size());
}

TEST_CASE("a GPU that has less memory than it says holds what it can") {
  Fixture f(1);
  f.gpus[0].memory = f.all * 6 / 10;
  f.residency.set_device_limit(2 * f.all);
  CHECK(answers(f.table, "gpu:0") == f.expected);
  CHECK(f.gpus[0].used <= f.all * 6 / 10);
  CHECK(f.gpus[0].mapped > 0);
  const std::size_t uploaded = f.gpus[0].uploaded_bytes;
  CHECK(answers(f.table, "gpu:0") == f.expected);
  CHECK(f.gpus[0].uploaded_bytes < uploaded + f.all / 10);
}

TEST_CASE("a GPU that has not even room for what it says is not asked for it by each search") {
  for (const std::size_t limit : {3, 4}) {
    CAPTURE(limit);
    Fixture f(1);
    f.gpus[0].memory = f.all / 10;
    f.residency.set_device_limit(f.all * limit / 10);
    CHECK(answers(f.table, "gpu:0") == f.expected);
    const std::size_t mappings = f.gpus[0].mappings, uploads = f.gpus[0].uploads;
    for (int i = 0; i < 3; ++i) CHECK(answers(f.table, "gpu:0") == f.expected);
    CHECK(f.gpus[0].mappings == mappings);
    CHECK(f.gpus[0].uploads == uploads);
  }
}

TEST_CASE("a GPU that is lost lets go of what it read in place") {
  Fixture f(1);
  f.residency.set_device_limit(f.all * 7 / 10);
  CHECK(answers(f.table, "gpu:0") == f.expected);
  f.gpus[0].failure = ErrorKind::kDevice;
  f.gpus[0].dies = true;
  f.gpus[0].fail_searches = 1;
  CHECK(answers(f.table, "") == f.expected);
  CHECK(f.gpus[0].lost);
  CHECK(f.gpus[0].mapped == 0);
  CHECK(f.gpus[0].used == 0);
}

TEST_CASE("what has no room at all is read in place, beside what has") {
  Fixture f(1);
  f.residency.set_device_limit(f.all / 5);
  for (const char* device : {"gpu:0", ""}) CHECK(answers(f.table, device) == f.expected);
  CHECK(f.gpus[0].used <= f.all / 5);
  CHECK(lines("gpu:0", "resident").count == 1);  // the model's
  CHECK(lines("gpu:0", "mapped").count > 0);
}

TEST_CASE("a forked child leaves what a GPU reads in place as it is") {
  Fixture f(1);
  f.residency.set_device_limit(f.all * 7 / 10);
  CHECK(answers(f.table, "gpu:0") == f.expected);
  const std::size_t mapped = f.gpus[0].mapped;
  const pid_t child = fork();
  if (child == 0) {
    compute::set_thread_count(1);  // the thread sanitizer allows no new ones here
    const bool same = answers(f.table, "cpu") == f.expected;
    f.residency.clear();
    _exit(same && f.gpus[0].mapped == mapped ? 0 : 1);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(answers(f.table, "gpu:0") == f.expected);
}

TEST_CASE("what all queries read is spread over GPUs, or each has it and some of the queries") {
  Fixture f(2);
  const std::vector<Hits> expected = answers(f.table, "cpu", 3000);
  const auto shares = [&](std::size_t percent) {
    f.residency.set_device_limit(0);
    f.residency.clear();
    f.residency.set_device_limit(f.all * percent / 100);
    const auto queries = f.gpus.shares([&] { CHECK(answers(f.table, "gpu", 3000) == expected); });
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(f.gpus[i].used <= f.all * percent / 100);
      CHECK(lines("gpu:" + std::to_string(i), "mapped").count == 0);
    }
    return queries;
  };
  const std::size_t asked = 2 * (1 + 7 + 3000);
  // All of it fits on both.
  std::vector<std::size_t> queries = shares(70);
  CHECK(f.gpus[0].mapped + f.gpus[1].mapped == 0);
  CHECK(queries[0] == asked);
  CHECK(queries[1] == asked);
  // What all queries read fits on each.
  queries = shares(49);
  CHECK(f.gpus[0].mapped > 0);
  CHECK(f.gpus[1].mapped > 0);
  CHECK(queries[0] + queries[1] == asked);
  CHECK(queries[1] >= 2 * 1024);
  // It fits on both.
  queries = shares(30);
  CHECK(f.gpus[0].mapped > 0);
  CHECK(f.gpus[1].mapped > 0);
  CHECK(queries[0] == asked);
  CHECK(queries[1] == asked);
}

}  // namespace
}  // namespace warplite::engine

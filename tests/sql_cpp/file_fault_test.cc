// Every operation on files that statements need fails once, and until the disk works again: no
// crash, no wrong row, and what said OK has come about, with this connection and with the next.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "engine/residency/residency.h"
#include "tests/support/database.h"
#include "tests/support/fakes/failing_files.h"
#include "tests/support/fakes/fault_course.h"
#include "tests/support/long_run.h"

namespace warplite::testing {
namespace {

struct Journal {
  const char* name;
  bool ahead;  // a write-ahead log
  const char* settings;
};

// With few pages in memory they are read again, and written before the transaction ends; with few
// in the log, they move into the file soon.
constexpr Journal kJournals[] = {
    {"a journal", false, ""},
    {"a journal and few pages in memory", false,
     "PRAGMA journal_mode = truncate; PRAGMA cache_size = 8"},
    {"a write-ahead log", true, ""},
    {"a write-ahead log and few pages", true,
     "PRAGMA wal_autocheckpoint = 4; PRAGMA cache_size = 8"},
};

struct Fault {
  FileFailure failure;
  long nth;
  bool forever;
};

std::string text_of(const Fault& fault) {
  return std::string(fault.failure == FileFailure::kFull ? "no room for write " : "operation ") +
         std::to_string(fault.nth) + (fault.forever ? " and all after it" : " alone");
}

void write_image(const std::string& path, std::vector<unsigned char> image, bool ahead) {
  constexpr std::size_t kWriteVersion = 18, kReadVersion = 19;  // in SQLite's header
  image[kWriteVersion] = image[kReadVersion] = ahead ? 2 : 1;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(image.data()),
             static_cast<std::streamsize>(image.size()));
}

// Where faults happen.
struct Site {
  const std::vector<unsigned char>& image;
  const World& world;
  const Scenario& scenario;
  const Course& course;
  const Journal& journal;
};

std::string text_of(const Site& site) {
  return std::string(site.world.name) + ", " + site.scenario.name + ", " + site.journal.name;
}

// Runs statements, from the `first` on, until one fails. One that says OK leaves a transaction open
// just where it should: after some failures SQLite rolls back by itself, which nobody may pass
// over.
std::vector<SqlResult> run_statements(const Site& site, const SqlSession& session,
                                      std::size_t first = 0) {
  std::vector<SqlResult> results;
  for (std::size_t i = first; i < site.scenario.statements.size(); ++i) {
    results.push_back(session.run(site.scenario.statements[i]));
    if (!results.back().ok()) break;
    INFO(site.scenario.statements[i]);
    CHECK(in_transaction(session) == site.course.in_transaction[i + 1]);
  }
  return results;
}

struct Run {
  std::vector<SqlResult> results;
  bool fired;
  long operations;  // if it has not fired

  std::size_t succeeded() const { return results.size() - (results.back().ok() ? 0 : 1); }
};

Run run_with(const Fault& planned, const Site& site, const SqlSession& session) {
  engine::Residency::instance().clear();
  const FileFault fault(planned.failure, planned.nth, planned.forever);
  session.run(site.journal.settings);
  Run run{run_statements(site, session), false, 0};
  run.fired = fault.fired();
  run.operations = fault.operations();
  return run;
}

// Returns how many operations may fail so.
long count_operations(const Site& site, FileFailure failure) {
  const TemporaryFile file;
  write_image(file.path(), site.image, site.journal.ahead);
  const SqlSession session(file.path());
  const Run run = run_with({failure, std::numeric_limits<long>::max(), false}, site, session);
  check_results(site.scenario, site.course, run.results, false);
  return run.operations;
}

// Where in its course a scenario may stand once a statement has failed and no transaction is open.
using Places = std::vector<std::size_t>;

// After the first `done` statements the next one failed: where the transaction began, or after it
// if that statement was to end it.
Places places_after_failure(const Course& course, std::size_t done) {
  Places places{done};
  while (course.in_transaction[places[0]]) --places[0];
  if (!course.in_transaction[done + 1]) places.push_back(done + 1);
  return places;
}

// Commits a transaction that is still open: the statement that failed is as if it had not been
// there. If there is no way but back, nothing else is possible.
void commit_rest(const Site& site, const SqlSession& session, std::size_t done, Places& places) {
  const SqlResult reading = session.run(site.world.state);
  const bool torn = contains(reading.message, "ROLLBACK first");
  if (!torn) check_state(session, site.world, {site.course.states[done]});
  const SqlResult committed = session.run("COMMIT");
  CHECK_MESSAGE(committed.ok() != torn, committed.message);
  if (committed.ok()) places = {done};
}

// Once the disk works again, another connection finds what this one does. Returns where that is.
std::size_t find_place(const Site& site, const SqlSession& session, const SqlSession& another,
                       const Places& places) {
  const std::string state = state_of(session, site.world);
  const auto found = std::ranges::find_if(
      places, [&](std::size_t place) { return site.course.states[place] == state; });
  CHECK_MESSAGE(found != places.end(), state);
  engine::Residency::instance().clear();
  check_state(another, site.world, {state});
  return found != places.end() ? *found : places[0];
}

// What has failed succeeds now.
void run_rest(const Site& site, const SqlSession& session, std::size_t place) {
  if (site.course.in_transaction[place]) return;  // it was committed here
  check_results(site.scenario, site.course, run_statements(site, session, place), false, place);
  check_state(session, site.world, {site.course.states.back()});
}

void run_with_fault(const Site& site, const Fault& fault) {
  const std::string where = text_of(site) + ", " + text_of(fault);
  INFO(where);
  const TemporaryFile file;
  write_image(file.path(), site.image, site.journal.ahead);
  {
    const SqlSession session(file.path());
    const Run run = run_with(fault, site, session);
    check_results(site.scenario, site.course, run.results, run.fired);
    const std::size_t done = run.succeeded();
    Places places{done};
    if (done < site.scenario.statements.size()) {
      const std::string failed = site.scenario.statements[done] + ": " + run.results.back().message;
      INFO(failed);
      CHECK(site.course.answers[done].starts_with(joined(run.results.back().rows)));
      places = places_after_failure(site.course, done);
      // SQLite says so, too, after a RELEASE of all by whose failure it has rolled back.
      const bool open = in_transaction(session) && site.course.in_transaction[done + 1];
      if (open && fault.nth % 2 == 1) commit_rest(site, session, done, places);
    }
    session.run("ROLLBACK");
    const SqlSession another(file.path());
    const std::size_t place = find_place(site, session, another, places);
    run_rest(site, session, place);
    check_usable(another, site.world);
    check_usable(session, site.world);
  }
  check_nothing_in_use();
}

// One of so many in an ordinary run; and where there are very many, neighbours are alike.
constexpr unsigned kEvery = 25;
constexpr long kMost = 200;

void fail_files(const Site& site) {
  static std::uint64_t combination = 0;
  for (const FileFailure failure : {FileFailure::kError, FileFailure::kFull}) {
    const long operations = count_operations(site, failure);
    const long step = operations / kMost | 1;  // odd, as half of the operations are
    for (long nth = 0; nth < operations; nth += step) {
      for (const bool forever : {false, true}) {
        if (due(++combination, kEvery)) run_with_fault(site, {failure, nth, forever});
      }
    }
  }
}

// A sub-case for each scenario.
void run_world(const World& world) {
  const FailingFiles files;
  const std::vector<unsigned char> image = image_of(world);
  for (const Scenario& scenario : world.scenarios) {
    SUBCASE(scenario.name) {
      const Course course = undisturbed(image, world, scenario);
      for (const Journal& journal : kJournals)
        fail_files({image, world, scenario, course, journal});
    }
  }
}

}  // namespace

TEST_CASE("failed files leave tables whole: rows") { run_world(rows_world()); }
TEST_CASE("failed files leave tables whole: vectors") { run_world(vectors_world()); }
TEST_CASE("failed files leave tables whole: texts") { run_world(texts_world()); }
TEST_CASE("failed files leave tables whole: rankings") { run_world(rankings_world()); }
TEST_CASE("failed files leave tables whole: content=") { run_world(content_world()); }
TEST_CASE("failed files leave tables whole: segments") { run_world(segments_world()); }
TEST_CASE("failed files leave tables whole: imports") { run_world(imports_world()); }

}  // namespace warplite::testing

// The test program: every connection it opens has the extension, linked statically.
// The last line of output counts cases; each path through a case's subcases
// (each .test file on each kind of database) is one.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdio>

#include "tests/support/fakes/failing_allocator.h"

extern "C" int sqlite3_warplite_init(sqlite3* db, char** message, const void* api);

namespace {

struct Tally : doctest::IReporter {
  explicit Tally(const doctest::ContextOptions&) {}

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override { failing_ = false; }
  void test_case_reenter(const doctest::TestCaseData&) override { count(); }
  void test_case_end(const doctest::CurrentTestCaseStats&) override { count(); }
  void test_case_exception(const doctest::TestCaseException&) override { failing_ = true; }
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& data) override {
    if (data.m_failed) failing_ = true;
  }
  void log_message(const doctest::MessageData& data) override {
    if ((data.m_severity & doctest::assertType::is_warn) == 0) failing_ = true;
  }
  void test_case_skipped(const doctest::TestCaseData&) override {}

  static inline int passed = 0;
  static inline int failed = 0;

 private:
  void count() {
    ++(failing_ ? failed : passed);
    failing_ = false;
  }
  std::atomic<bool> failing_ = false;  // threads of a test may assert too
};

REGISTER_LISTENER("tally", 1, Tally);

}  // namespace

int main(int argc, char** argv) {
  warplite::testing::install_failing_allocator();
  const auto init = reinterpret_cast<void (*)()>(sqlite3_warplite_init);
  if (sqlite3_auto_extension(init) != SQLITE_OK) {
    std::fprintf(stderr, "sqlite3_auto_extension failed\n");
    return 1;
  }
  doctest::Context context(argc, argv);
  const int result = context.run();
  std::printf("%d passed, %d failed\n", Tally::passed, Tally::failed);
  return result;
}

// Files whose checksums and sums are right and whose content is not (forge.h). Every statement
// answers or fails with a clean error, within bounded memory; by one connection or by two of one
// file, and whatever is in memory of a file that had its name before.
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/residency/residency.h"
#include "tests/support/forgery.h"
#include "tests/fuzz/forge.h"
#include "tests/fuzz/fuzz_database.h"
#include "tests/fuzz/fuzz_tables.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using warplite::fuzzing::fuzz_tables;
using warplite::fuzzing::FuzzTable;
using warplite::fuzzing::Input;
using warplite::fuzzing::require;
using warplite::testing::Forgery;

// MB of the process. The file is smaller than 1, and takes less than 50 undamaged.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kMostMemory = 1500;  // most of it the sanitizer's
#else
constexpr long kMostMemory = 500;
#endif

using Image = std::vector<unsigned char>;

Image image_of(sqlite3* db) {
  sqlite3_int64 size = 0;
  unsigned char* bytes = sqlite3_serialize(db, "main", &size, 0);
  Image image(bytes, bytes + size);
  sqlite3_free(bytes);
  return image;
}

const Image& original() {
  static const Image image = [] {
    sqlite3* db = warplite::fuzzing::database();
    // Many processes run side by side; what is shared by threads is shared by two of them.
    warplite::fuzzing::answer(db, "SELECT warp_config('threads', 2)");
    for (const FuzzTable& table : fuzz_tables()) {
      char* message = nullptr;
      sqlite3_exec(db, table.set_up.c_str(), nullptr, nullptr, &message);
      require(message == nullptr,
              std::string(table.name) + ": " + (message != nullptr ? message : ""));
      for (const std::string& sql : table.statements) {
        const std::string found = warplite::fuzzing::answer(db, "SAVEPOINT s");
        const std::string answer = warplite::fuzzing::answer(db, sql);
        // The rows may be too few to learn from, or have their keys already; what needs
        // the statement before it stands alone here.
        const bool may_fail = sql.find("'train'") != std::string::npos ||
                              answer.find("no such ") != std::string::npos ||
                              answer.find("UNIQUE constraint") != std::string::npos ||
                              answer.find("needs vectors") != std::string::npos;
        require(may_fail || answer.rfind("error: ", 0) != 0, sql + ": " + answer);
        warplite::fuzzing::run(db, "ROLLBACK TO s; RELEASE s");
      }
    }
    return image_of(db);
  }();
  return image;
}

// Runs to the end, whatever comes.
void try_statement(sqlite3* db, const std::string& sql) {
  char* message = nullptr;
  const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message);
  const std::string text = message != nullptr ? message : "";
  sqlite3_free(message);
  const bool clean = (code == SQLITE_OK || !text.empty()) && code != SQLITE_NOMEM &&
                     code != SQLITE_INTERNAL && text.find("internal check") == std::string::npos;
  require(clean, "a fault of " + sql + ": " + std::to_string(code) + " " + text);
}

void run_all(sqlite3* db, const FuzzTable& table, unsigned turn) {
  const std::size_t count = table.statements.size();
  for (std::size_t i = 0; i < count; ++i) try_statement(db, table.statements[(i + turn) % count]);
}

// The file of this process.
const std::string& file() {
  static const std::string path = [] {
    const std::string name = "/tmp/warplite_forgery_" + std::to_string(getpid());
    std::atexit([] { std::remove(file().c_str()); });
    return name;
  }();
  return path;
}

sqlite3* open_file() {
  sqlite3* db = nullptr;
  require(sqlite3_open(file().c_str(), &db) == SQLITE_OK, "cannot open a file");
  sqlite3_exec(db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY", nullptr, nullptr,
               nullptr);
  return db;
}

// What a file is after the changes that the input says.
Image forged(const FuzzTable& one, const FuzzTable& two, bool settled, Input& input) {
  sqlite3* db = warplite::fuzzing::copy_of(original());
  try {
    Forgery table(db, one.name), other(db, two.name);
    const unsigned how = input.byte();
    for (unsigned count = 1 + how % 3; count > 0; --count)
      warplite::fuzzing::forge(table, other, input);
    if (settled) table.settle();
    other.settle();
    if (how % 16 == 15) warplite::fuzzing::forge_schema(db, one.name, input);
  } catch (const warplite::Error&) {  // what was changed is not read any more
  }
  Image image = image_of(db);
  sqlite3_close(db);
  return image;
}

// One connection writes while another one has read.
void run_by_two(const Image& image, const FuzzTable& one, const FuzzTable& two, unsigned turn) {
  std::ofstream(file(), std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(image.data()),
             static_cast<std::streamsize>(image.size()));
  sqlite3* first = open_file();
  sqlite3* second = open_file();
  const std::size_t count = one.statements.size();
  for (std::size_t i = 0; i < count; ++i) {
    try_statement((i + turn) % 3 == 0 ? second : first, one.statements[i]);
  }
  run_all(second, two, 0);
  try_statement(first, one.statements[0]);
  sqlite3_close(first);
  sqlite3_close(second);
}

// In one transaction, with rows that are written when it ends or too many wait.
void run_alone(const Image& image, const FuzzTable& one, const FuzzTable& two, unsigned turn) {
  sqlite3* db = warplite::fuzzing::copy_of(image);
  if (turn % 4 == 0) run_all(db, two, 0);
  if (turn % 32 == 9) try_statement(db, "BEGIN");
  run_all(db, one, turn % 16 < 8 ? 0 : turn);
  if (turn % 32 == 9)
    sqlite3_exec(db, turn < 128 ? "COMMIT" : "ROLLBACK", nullptr, nullptr, nullptr);
  if (turn % 4 == 1) run_all(db, two, 0);
  sqlite3_close(db);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const FuzzTable& one = fuzz_tables()[input.byte() % fuzz_tables().size()];
  const FuzzTable& two = fuzz_tables()[input.byte() % fuzz_tables().size()];
  const unsigned turn = input.byte();
  const Image image = forged(one, two, turn % 8 != 0, input);
  if (turn % 3 != 0) warplite::engine::Residency::instance().clear();
  warplite::engine::Residency::instance().set_limit(turn % 16 == 5 ? 100 : 0);
  if (turn % 5 == 0) {
    run_by_two(image, one, two, turn);
  } else {
    run_alone(image, one, two, turn);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  require(usage.ru_maxrss / 1024 < kMostMemory, "too much memory");
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  std::uint32_t state = 1;
  for (std::size_t table = 0; table < fuzz_tables().size(); ++table) {
    for (int how = 0; how < 12; ++how) {
      std::string seed = {static_cast<char>(table), static_cast<char>(table + how % 3),
                          static_cast<char>(how), 0, static_cast<char>(how)};
      for (int i = 0; i < 24; ++i) {
        state = state * 1664525 + 1013904223;
        seed += static_cast<char>(state >> 24);
      }
      seeds.push_back(seed);
    }
  }
  return seeds;
}

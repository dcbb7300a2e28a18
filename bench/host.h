// A connection as a user's program has it: sqlite3_open, an extension loaded,
// prepared statements. Every failure throws std::runtime_error with SQLite's message.
// Threads: one. Ownership: statements end before their connection.
#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace warplite::bench {

class Host {
 public:
  explicit Host(const std::string& path);
  ~Host() { sqlite3_close(db_); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void load_extension(const std::string& path);
  void exec(const std::string& sql);
  sqlite3* get() { return db_; }

 private:
  sqlite3* db_ = nullptr;
};

class Statement {
 public:
  Statement(Host& host, const std::string& sql);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int index, std::int64_t value);
  // Borrows the bytes until the next bind or the end. Does nothing when the
  // statement has no such parameter.
  void bind(int index, const void* data, std::size_t size);

  struct Answer {
    std::uint64_t rows = 0;
    double sum = 0;  // of the last column, to compare answers by
  };
  // Steps to the end, reading the first and the last column, and resets.
  Answer run();

 private:
  [[noreturn]] void fail();

  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
};

// The vectors of an .fvecs file, their dimensions stripped.
struct Vectors {
  std::size_t dim = 0;
  std::size_t rows = 0;
  std::vector<float> values;

  static Vectors read(const std::string& path);
  std::size_t stride() const { return dim * sizeof(float); }
  const float* row(std::size_t i) const { return values.data() + i * dim; }
};

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

double median(std::vector<double> values);

// Of this process, in bytes, from /proc/self/status: "VmRSS" or "VmHWM"; 0 where
// there is none.
std::uint64_t process_memory(const std::string& field);

// Pairs of "--name value", in any order with positional arguments.
class Arguments {
 public:
  Arguments(int argc, char** argv);
  // The values of every "--name value".
  std::vector<std::string> all(const std::string& name) const;
  std::string get(const std::string& name, const std::string& otherwise) const;
  std::size_t number(const std::string& name, std::size_t otherwise) const;
  const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::vector<std::pair<std::string, std::string>> options_;
  std::vector<std::string> positional_;
};

// What main() returns: the body's status, or 1 after "NAME: …" on stderr when it threw.
int run_program(const char* name, int (*body)(int argc, char** argv), int argc, char** argv);

}  // namespace warplite::bench

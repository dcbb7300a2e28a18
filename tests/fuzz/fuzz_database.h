// A connection with the extension for fuzz targets. Aborts where a fuzzer should stop.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <vector>

namespace warplite::fuzzing {

// Opened once per process, in memory, closed never.
sqlite3* database();

// Another one, which begins as these bytes. The caller closes it.
sqlite3* copy_of(const std::vector<unsigned char>& image);

// Aborts, with the message printed, unless `holds`.
void require(bool holds, const std::string& message);

// That the message of a failed statement is UTF-8 and short, unless it is SQLite's own about text that it
// could not parse.
void check_message(sqlite3* db);

// Runs every statement; true when all succeeded.
bool run(sqlite3* db, const std::string& sql);
// The first column of the first row as text; "error: …" when it fails.
std::string answer(sqlite3* db, const std::string& sql);

// The bytes of an input, taken from the front.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  unsigned byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::string rest() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace warplite::fuzzing

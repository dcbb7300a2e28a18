#include "bench/host.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace warplite::bench {

Host::Host(const std::string& path) {
  if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) {
    const std::string message = sqlite3_errmsg(db_);
    sqlite3_close(db_);
    throw std::runtime_error(path + ": " + message);
  }
}

void Host::load_extension(const std::string& path) {
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, nullptr);
  char* message = nullptr;
  if (sqlite3_load_extension(db_, path.c_str(), nullptr, &message) != SQLITE_OK) {
    const std::string text = message == nullptr ? "unknown error" : message;
    sqlite3_free(message);
    throw std::runtime_error(path + ": " + text);
  }
}

void Host::exec(const std::string& sql) {
  if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(db_));
  }
}

Statement::Statement(Host& host, const std::string& sql) : db_(host.get()) {
  if (sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(db_));
  }
}

void Statement::fail() {
  throw std::runtime_error(std::string(sqlite3_sql(statement_)) + ": " + sqlite3_errmsg(db_));
}

void Statement::bind(int index, std::int64_t value) {
  if (sqlite3_bind_int64(statement_, index, value) != SQLITE_OK) fail();
}

void Statement::bind(int index, const void* data, std::size_t size) {
  if (index > sqlite3_bind_parameter_count(statement_)) return;
  if (sqlite3_bind_blob64(statement_, index, data, size, SQLITE_STATIC) != SQLITE_OK) fail();
}

Statement::Answer Statement::run() {
  Answer answer;
  int code;
  while ((code = sqlite3_step(statement_)) == SQLITE_ROW) {
    ++answer.rows;
    sqlite3_column_int64(statement_, 0);
    answer.sum += sqlite3_column_double(statement_, sqlite3_column_count(statement_) - 1);
  }
  if (code != SQLITE_DONE) fail();
  sqlite3_reset(statement_);
  return answer;
}

Vectors Vectors::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  const std::size_t size = static_cast<std::size_t>(file.tellg());
  file.seekg(0);
  Vectors vectors;
  std::int32_t dim = 0;
  while (file.read(reinterpret_cast<char*>(&dim), sizeof dim)) {
    if (vectors.rows == 0) {
      vectors.dim = static_cast<std::size_t>(dim);
      vectors.values.resize(size / (sizeof dim + vectors.stride()) * vectors.dim);
    }
    float* row = vectors.values.data() + vectors.rows * vectors.dim;
    const auto bytes = static_cast<std::streamsize>(vectors.stride());
    if (static_cast<std::size_t>(dim) != vectors.dim ||
        !file.read(reinterpret_cast<char*>(row), bytes)) {
      throw std::runtime_error(path + ": not an .fvecs file");
    }
    ++vectors.rows;
  }
  return vectors;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::uint64_t process_memory(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(field + ":", 0) == 0) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

Arguments::Arguments(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) != 0) {
      positional_.emplace_back(argv[i]);
    } else if (i + 1 < argc) {
      options_.emplace_back(argv[i] + 2, argv[i + 1]);
      ++i;
    } else {
      throw std::runtime_error(std::string(argv[i]) + " needs a value");
    }
  }
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : options_) {
    if (key == name) values.push_back(value);
  }
  return values;
}

std::string Arguments::get(const std::string& name, const std::string& otherwise) const {
  const std::vector<std::string> values = all(name);
  return values.empty() ? otherwise : values.back();
}

std::size_t Arguments::number(const std::string& name, std::size_t otherwise) const {
  const std::string value = get(name, "");
  return value.empty() ? otherwise : std::stoull(value);
}

int run_program(const char* name, int (*body)(int argc, char** argv), int argc, char** argv) {
  try {
    return body(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace warplite::bench

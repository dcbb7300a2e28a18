// Data sets that are no part of the repository: lines of files in $WARPLITE_DATA, or in shared/data
// beside the sources.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace warplite::testing {

inline std::string data_path(const std::string& name) {
  const char* directory = std::getenv("WARPLITE_DATA");
  return (directory != nullptr ? std::string(directory)
                               : WARPLITE_SOURCE_DIR "/../shared/data") + "/" + name;
}

// Empty, with a message, when the file is not there.
inline std::vector<std::string> data_lines(const std::string& name) {
  const std::string path = data_path(name);
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (lines.empty()) MESSAGE("skipped: there is no ", path);
  return lines;
}

// What tabs separate.
inline std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> all(1);
  for (const char c : line) {
    if (c == '\t') {
      all.emplace_back();
    } else {
      all.back() += c;
    }
  }
  return all;
}

}  // namespace warplite::testing

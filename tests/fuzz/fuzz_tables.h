// Tables of every kind for fuzz targets, and statements of every kind for each.
#pragma once

#include <string>
#include <vector>

namespace warplite::fuzzing {

struct FuzzTable {
  const char* name;
  std::string set_up;
  std::vector<std::string> statements;  // reads first, then writes and commands
};

const std::vector<FuzzTable>& fuzz_tables();

}  // namespace warplite::fuzzing

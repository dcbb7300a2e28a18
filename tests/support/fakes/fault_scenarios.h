// Statements of every form, in worlds of small tables: what fault_test.cc runs while an allocation
// fails, and file_fault_test.cc while a file does.
#pragma once

#include <string>
#include <vector>

namespace warplite::testing {

// Statements, run one after another until one fails.
struct Scenario {
  const char* name;
  std::vector<std::string> statements;
};

struct World {
  const char* name;
  std::string set_up;
  std::string state;   // queries whose rows are those of the tables
  std::string usable;  // statements that must succeed wherever a scenario ended
  std::vector<Scenario> scenarios;
};

// Of a set-up: x counts from 1 to n.
std::string counting(int n);

World rows_world();     // columns of every type, a text key, segments, a tail
World vectors_world();  // every type of vector and kind of index, trained; store=codes
World texts_world();    // every index of texts, and match counts
World rankings_world();  // sparse vectors, lists, texts and FTS5, which are searched together
World content_world();  // content=, with triggers and by hand
World segments_world();  // segments whose blocks are read at once, and one transaction of several
World imports_world();  // tables of sqlite-vec, a file of vectors

}  // namespace warplite::testing

// Few queries, row by row: each row is read from memory once, screened where that pays, and
// scored canonically if it may be in the answer. One Scan per thread.
#pragma once

#include <vector>

#include "cpu/scan/screen.h"
#include "cpu/scan/worker.h"

namespace warplite::cpu {

class Scan {
 public:
  // `screen` may be null. Throws std::bad_alloc.
  Scan(Worker& worker, const Screen* screen);

  void search(const Span& span);

 private:
  void visit(std::size_t query, const compute::Block& block, const std::uint32_t* rows, std::size_t n);

  Worker& worker_;
  const Screen* screen_;
  std::vector<std::uint32_t> rows_, own_, kept_;
  std::vector<float> lows_;
  std::vector<char> dense_;  // queries that keep most rows: screening them is in vain
};

}  // namespace warplite::cpu

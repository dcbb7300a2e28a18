// The threads of a search by edit distance, each with its comparer.
// Threads: run() by one at a time. Errors: as ItemLoop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "cpu/edit/comparer.h"
#include "cpu/runtime/item_loop.h"

namespace warplite::cpu {

class EditThreads {
 public:
  EditThreads(const compute::EditWork& work, EditResults& results);
  // Adds to the work's counters what was evaluated.
  void count() const;

  using Body = std::function<void(EditComparer& comparer, std::size_t item)>;
  // Calls body for every item. `columns`: of blocks, 32 lanes each, that all items have.
  void run(std::size_t items, std::size_t columns, const Body& body);

 private:
  const compute::EditWork& work_;
  EditResults& results_;
  ItemLoop loop_;
  std::vector<std::unique_ptr<EditComparer>> comparers_;
};

}  // namespace warplite::cpu

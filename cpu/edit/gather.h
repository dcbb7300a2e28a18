// Texts of several groups, put together in one.
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/edit/group.h"

namespace warplite::cpu {

class EditGather {
 public:
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == compute::kEditGroup; }
  // REQUIRES: !full(); the width is the same for all.
  void add(const EditGroup& from, std::uint32_t width, int place);
  // They are a group, valid until the next add(), and there are none.
  EditGroup finish();

 private:
  std::uint32_t count_ = 0, longest_ = 0, shortest_ = compute::kLongestEditText;
  std::vector<std::byte> symbols_;
  std::uint16_t lengths_[compute::kEditGroup] = {}, rows_[compute::kEditGroup] = {};
};

}  // namespace warplite::cpu

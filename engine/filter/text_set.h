// The texts of an IN. All of their bytes lie one after another, so that hundreds of thousands of
// texts are made a set, and given back, in a few steps. Threads: any may read it while nobody
// inserts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warplite::engine {

class TextSet {
 public:
  // Inserts nothing where the text is there.
  void insert(std::string_view text);
  bool contains(std::string_view text) const;
  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  // The texts in the order of their insertion. Valid until the next one.
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  // By open addressing; of an empty slot, `number` is 0.
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t number = 0;  // of the text, plus 1
  };

  void grow();
  // The slot that has the text, or the one where it belongs. REQUIRES: there are empty slots.
  std::size_t find(std::string_view text, std::uint32_t hash) const;

  std::string bytes_;
  std::vector<std::size_t> ends_;  // of each text in bytes_
  std::vector<Slot> slots_;        // none, or a power of two of which half are empty
};

}  // namespace warplite::engine

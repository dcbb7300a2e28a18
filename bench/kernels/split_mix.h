#pragma once

#include <cstdint>

namespace warplite::bench {

// A small generator: rows are drawn more than once, and seeding a large one takes long.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t operator()() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace warplite::bench

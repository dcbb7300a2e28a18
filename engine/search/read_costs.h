// What it costs one core to read vectors that are not in memory and to compare them, in
// nanoseconds: measured on a Sapphire Rapids, with the file in the system's memory.
#pragma once

#include <cstddef>

namespace warplite::engine {

inline constexpr double kReadByteCost = 0.65;

// Of whole blocks.
inline double block_cost(std::size_t bytes) {
  return static_cast<double>(bytes) * kReadByteCost;
}
// Of rows that are read one by one (Part::read_vectors), each of so many bytes.
inline double rows_cost(double rows, std::size_t stride) {
  constexpr double kLookUp = 700;
  return rows * (kLookUp + block_cost(stride));
}

}  // namespace warplite::engine

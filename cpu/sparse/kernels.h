// The inner loops of searches by postings of sparse vectors, a part of the table of kernels of each
// SIMD target.
// Threads: the functions keep no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplite::cpu {

// A column of impacts (compute/sparse/postings.h) and what an impact of 1 counts, in units of
// 1/256. Where `taken_off`, counters lose what an impact that is one less counts.
struct SparseColumn {
  const std::uint8_t* impacts;
  std::uint16_t weight;
  bool taken_off;
};

// Counters stand at places (compute::sparse_place); their numbers are multiples of kSparseRange, and
// so are first places.
struct SparseKernels {
  // Adds to each counter what the columns' impacts of its row count, each rounded down. Sums stay
  // within what a counter holds.
  void (*add_columns)(const SparseColumn* columns, std::size_t n, std::size_t first,
                      std::size_t count, std::int16_t* counters) = nullptr;
  // Says whether there is one of at least `floor`.
  bool (*reaches)(const std::int16_t* counters, std::size_t count, int floor) = nullptr;
  // Writes the places of counters that are at least `floor`, which is above the least that there is,
  // and returns how many there are.
  std::size_t (*collect)(const std::int16_t* counters, std::size_t count, std::int16_t floor,
                         std::uint32_t* places) = nullptr;
};

// The table of the SIMD target in use. Valid for the life of the process.
const SparseKernels& sparse_kernels();

}  // namespace warplite::cpu

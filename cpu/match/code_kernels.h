// The inner loop of match counting over columns of codes, a part of the table of kernels of each
// SIMD target.
// Threads: the functions keep no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplite::cpu {

// A row counts `weight` when low ≤ its code ≤ low + width.
struct CodeTest {
  const std::uint16_t* codes;
  std::uint16_t low, width;
  std::uint32_t weight;
};

struct CodeKernels {
  // Writes what the rows from `first` on count. REQUIRES: `rows` is a multiple of 64.
  void (*shorts)(const CodeTest* tests, std::size_t n, std::size_t first, std::size_t rows,
                 std::uint16_t* counts) = nullptr;
  void (*words)(const CodeTest* tests, std::size_t n, std::size_t first, std::size_t rows,
                std::uint32_t* counts) = nullptr;
};

// The table of the SIMD target in use. Valid for the life of the process.
const CodeKernels& code_kernels();

}  // namespace warplite::cpu

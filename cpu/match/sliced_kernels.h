// The inner loop of match counting for many queries at once, a part of the table of kernels of each
// SIMD target.
// Threads: the functions keep no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplite::cpu {

// Planes of a counter at most: no row counts more than 255.
constexpr std::size_t kCountPlanes = 8;

// Rows are a table of keywords: in each column a row has one, or none.
struct SlicedRows {
  const std::uint16_t* numbers;  // [columns][stride], of the rows' keywords; of none: 0
  std::size_t stride;
  std::uint32_t columns, rows;
  const std::uint8_t* masks;     // [numbers][bytes]: queries that want the keyword; 0: none does
  const std::uint8_t* floors;    // [kCountPlanes][bytes]: bit p of what a row must count at least
  const std::uint8_t* asking;    // [bytes]: queries that a row can satisfy
  std::uint8_t* sums;            // [rows][kCountPlanes][bytes], for the kernel to use
};

struct SlicedKernels {
  std::size_t bytes = 0;  // of a vector: an eighth of the queries of a block
  // Counts for all queries of a block at once. Writes the rows that count enough for some query, and
  // for each of them [1 + kCountPlanes][bytes]: the queries, then the planes of the counts. Returns
  // how many.
  std::size_t (*count)(const SlicedRows& rows, std::uint32_t* found, std::uint8_t* counts) =
      nullptr;
};

// The table of the SIMD target in use. Valid for the life of the process.
const SlicedKernels& sliced_kernels();

}  // namespace warplite::cpu

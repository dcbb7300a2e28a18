// A RowTable is what kernels know of the rows they search: the blocks of a workload in a row, each
// row with an ordinal, its position among all of them. Plain data, the same for host and device
// code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/distance.h"
#include "core/types.h"

namespace warplite::gpu {

struct RowBlock {
  const std::byte* vectors;   // device address (or mapped host memory)
  const std::uint64_t* live;  // device address; null: all rows live
  std::uint32_t rows;
  std::uint32_t first_ordinal;
  std::uint32_t first_group;  // of the groups of RowTable::group_rows rows
  std::uint32_t reserved;
};

struct RowTable {
  const RowBlock* blocks;
  std::uint32_t block_count;
  std::uint32_t rows;        // of all blocks; ordinals are below it
  std::uint32_t groups;
  std::uint32_t group_rows;  // a multiple of 64; groups do not cross blocks
  std::uint32_t dim;
  std::uint32_t stride;      // bytes of a vector
  bool aligned;              // every vector begins on 16 bytes
};

// Distances that count; see DistanceRange.
struct Bounds {
  double low, high;
  bool low_open, high_open;
};

// A row that may belong to the result, with its canonical distance.
struct Candidate {
  double distance;
  std::uint32_t block;  // index into RowTable::blocks
  std::uint32_t row;    // of that block
};

// Groups of rows that the choice of the nearest (scan.h) can compare.
inline constexpr std::uint32_t kMostGroups = 32768;
// Queries that one pass over the rows compares.
inline constexpr unsigned kScanQueries = 4;

// Queries as canonical arithmetic takes them (shadow.h); device addresses.
struct QueryTerms {
  const double* real;      // real elements: [queries][padded], zeros behind dim
  const std::byte* bytes;  // INT8, BIT: [queries][padded], zeros behind the vector
  const double* squares;   // y·y of each query in canonical order; INT8: exact
  std::uint32_t padded;    // elements, or bytes, from one query to the next
  std::uint32_t slots[kScanQueries] = {0, 1, 2, 3};  // which of them are compared
};

}  // namespace warplite::gpu

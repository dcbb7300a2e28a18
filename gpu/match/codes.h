// Match counting over columns of codes (compute/codes.h) as kernels see it. Plain data, the same
// for host and device code; pointers are device addresses.
//
// A few queries, weights other than 1, rowids in disorder: strips (codes_count.cu). A thread block
// counts for one query in a part of a tile, as match.h has it for postings; only what is counted
// differs. Many queries of which each item counts 1: slices (codes_slices.h).
#pragma once

#include "compute/codes.h"
#include "gpu/match/match.h"

namespace warplite::gpu {

struct CodeSearchView {
  // Describes the rows, but for items and for what tiles have of postings. Its bits are 8, 16 or
  // 32.
  MatchSearchView rows;
  const std::uint16_t* const* columns;  // [tiles][column_count]; null: no row matches
  std::uint32_t column_count;
  std::uint32_t item_count;             // of all queries
  const compute::CodeItem* items;       // those of query q begin at rows.begins[q]
  const compute::CodeRange* ranges;     // [tiles][item_count]
};

// The rows of a strip that leave room for what else the kernel keeps in shared memory.
std::uint32_t code_strip_rows(unsigned bits, std::size_t shared_memory);
// Counts, and keeps what may belong to the k best.
void launch_code_count(const CodeSearchView& search, cudaStream_t stream);

}  // namespace warplite::gpu

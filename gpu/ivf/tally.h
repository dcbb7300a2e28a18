// Kernels of a pass of k-means over resident rows (compute/tally.h): rows as model space has
// them, the list of each, and sums over the rows of a list, one after the other in their order, as
// the host adds them. Addresses are the device's; launches go on one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/types.h"
#include "gpu/rows/row_table.h"

namespace warplite::gpu {

// Rows that lists are made of.
struct ListedRows {
  RowTable table;
  ElementType type;
  double* norms;  // [rows], by which rows are divided; null: by nothing
  std::uint32_t lists;
  std::uint32_t* list;  // [rows]; `lists`: the row takes no part
  double* distances;    // [rows], from the centroid
};

// Some rows as float32: ordinals[0 … count − 1], or from `first` on without `ordinals`. Makes their
// norms.
struct LoadRows {
  std::uint32_t first, count;
  const std::uint32_t* ordinals;
  float* out;  // [count][dim]
};
void launch_load_rows(const ListedRows& rows, const LoadRows& work, cudaStream_t stream);

// Takes the nearest list of rows `first` … `first + count − 1`, one candidate a row; those for
// which none was proved go to `lost`, up to `room` of them.
struct TakeLists {
  std::uint32_t first, count;
  const Candidate* candidates;
  const std::uint32_t* found;  // as Rescore has it
  std::uint32_t* lost;
  std::uint32_t* lost_count;
  std::uint32_t room;
};
void launch_take_lists(const ListedRows& rows, const TakeLists& work, cudaStream_t stream);

// Puts rows in the order of lists, and within a list in their own: `members`, list l from begins[l]
// on, to begins[lists]. `scratch`: sort_lists_scratch() bytes.
std::size_t sort_lists_scratch(std::uint32_t rows);
void launch_sort_lists(const ListedRows& rows, std::byte* scratch, std::size_t scratch_bytes,
                       std::uint32_t* members, std::uint32_t* begins, cudaStream_t stream);

// As ListTallies has them, whose sums and squares go on from what is there; `farthest` of these
// rows alone, its block an index into the table's. Of lists `first` … `end − 1`, at their places
// among all.
struct ListSums {
  std::uint32_t first, end;
  double* sums;
  double* squares;
  Candidate* farthest;
};
void launch_sum_lists(const ListedRows& rows, const std::uint32_t* members,
                      const std::uint32_t* begins, const ListSums& out, cudaStream_t stream);

}  // namespace warplite::gpu

// Searches of RaBitQ codes (compute/rabitq.h) as kernels see them. Plain data, the same for host
// and device code; pointers are device addresses.
//
// The lists that a query probes are dealt out, whole or in parts, to the warps of a few thread
// blocks, its slices. A warp makes a list's tables, and goes through the signs of its rows, 32 at a
// time; rows that the signs do not rule out are looked at closely 32 at a time as well, a lane
// each. A slice keeps the best rows it has seen in shared memory, and their worst is the limit by
// which rows are ruled out, of all slices of the query. What is kept are the best by (score,
// ordinal), whatever the order of lists, warps and slices. Lists in groups are found by the same
// search: groups are its lists, and lists its rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "compute/ivf.h"
#include "gpu/ivf/ivf.h"
#include "gpu/rows/row_table.h"

namespace warplite::gpu {

// Rows of a query that may be wanted, lists among them.
inline constexpr std::uint32_t kMostWanted = 8192;

// The best rows that slices of a query found, as keys of (score, ordinal), in any order.
struct RabitqBest {
  std::uint64_t* keys;    // [queries][stride]
  std::uint32_t stride;   // at least slices · wanted
  std::uint32_t* counts;  // [queries], zero before; above stride: some were dropped
  std::uint64_t* limits;  // [queries], all ones before
};

// Queries as the column has them, which are rotated at random (compute/host/rotation.h).
struct RabitqRotation {
  const std::byte* given;  // [count][stride]
  float* out;              // [count][dim], in model space
  ElementType type;
  std::uint32_t count, dim, stride;
  bool normalised;  // cosine
};
bool rabitq_rotates(std::uint32_t dim);
// REQUIRES: rabitq_rotates()
void launch_rabitq_rotate(const RabitqRotation& work, cudaStream_t stream);

struct RabitqScan {
  compute::IvfShape shape;
  bool product;          // ip
  bool with_signs;       // compute::signs_count_by_elements()
  const float* queries;  // [count][dim], in model space
  std::uint32_t count;
  const float* centroids;  // [lists][dim]
  const IvfRunView* runs;
  std::uint32_t run_count;
  // [count][list_stride], nearest first, kNoList: none; null: 0 … nprobe − 1
  const std::uint32_t* lists;
  std::uint32_t list_stride;
  std::uint32_t nprobe;  // the first of them
  std::uint32_t wanted;  // at most kMostWanted
  std::uint32_t slices;
  // What is dealt out: lists, or what is of them in one run, in so many parts of every n-th group.
  bool by_runs;
  std::uint32_t parts;
  const std::uint32_t* lost;  // null: all queries; else those of launch_find_lost()
  const std::uint32_t* stop;  // a number: once it is not 0, nothing more is begun
  RabitqBest best;
};

// Says whether a thread block with so much shared memory can search this for so many rows.
bool rabitq_fits(const compute::IvfShape& shape, std::uint32_t wanted, std::size_t shared_memory);
void launch_rabitq(const RabitqScan& scan, std::size_t shared_memory, cudaStream_t stream);

// The same of whole centroids: lists are rows, and their D is the score. REQUIRES: stride ≥ lists.
void launch_list_distances(const RabitqScan& scan, cudaStream_t stream);

// The same list by list: codes are multiplied with many queries at once on tensor cores (signs are
// bytes, w too, so that sums are exact), by limits that are in scan.best, to which this adds.
// Queries of which it finds more than there is room for are lost, as their counts say.
// What a query and a list make of each other.
struct RabitqTables {
  float a, norm, unit, fine;
  std::int32_t sum, signs;  // Σ v, Σ w
};
// Words of four bytes that w and v take, each.
constexpr std::uint32_t pair_words(std::uint32_t m) {
  return (m + 7) / 8 * 8;
}
// `capability`: as Gpu::capability() has it.
bool rabitq_lists_fit(const compute::IvfShape& shape, int capability, std::size_t shared_memory);
// Pairs of queries and lists, in units of a list and so many tiles of queries.
struct RabitqUnits {
  IvfPairs pairs;
  std::uint32_t tiles, most;  // units
};
// Of each query's lists those from `first` on, before scan.nprobe. `pairs`: room for all of them.
RabitqUnits launch_rabitq_units(const RabitqScan& scan, std::uint32_t first, const IvfPairs& pairs,
                                cudaStream_t stream);
void launch_rabitq_lists(const RabitqScan& scan, const RabitqUnits& units, cudaStream_t stream);

// Scores that rows of the first lists are not beyond, if the errors of their signs are as is usual,
// as ordered keys: `groups` of kRows / 2 for each list.
struct RabitqBounds {
  std::uint32_t* keys;   // [queries][stride]
  std::uint32_t stride;  // of all lists
  std::uint32_t lists;
  std::uint32_t groups;  // of a list
};
// Without keys. `rows`: of a list, on average.
RabitqBounds rabitq_bounds(std::uint32_t lists, std::uint32_t rows);
// Limits that hold as many rows as are wanted, as a rule. `units`: of the first lists.
void launch_guess_limits(const RabitqScan& scan, const RabitqUnits& units,
                         const RabitqBounds& bounds, cudaStream_t stream);

// The queries of which more was found than there was room for, or fewer than are wanted, since the
// limit was too low: their number, then theirs; nothing is found of them.
void launch_find_lost(const RabitqBest& best, std::uint32_t queries, std::uint32_t wanted,
                      std::uint32_t* lost, cudaStream_t stream);

// Lowers the limits to the worst of the `wanted` best that were found so far.
void launch_lower_limits(const RabitqBest& best, std::uint32_t queries, std::uint32_t wanted,
                         cudaStream_t stream);

// Which of a run's positions have rows that live, as IvfRunView::live.
void launch_live_mask(const IvfRunView& run, std::uint32_t positions, const RowTable& table,
                      std::uint32_t* bits, cudaStream_t stream);

// What queries see of the lists that they probe, as compute::IvfWork has it, of those lists alone
// that are counted.
struct RabitqSights {
  compute::ProbedList* lists;  // [queries][counted]
  float* left;                 // [queries]
  std::uint32_t counted;       // IvfWork::counted_lists()
  const std::uint32_t* eighths;  // as OrderedLists has them; null: lists have all
};
// REQUIRES: scan.wanted, and in scan.best what was found.
void launch_rabitq_sights(const RabitqScan& scan, const RabitqSights& sights, cudaStream_t stream);

// The `wanted` best of what was found, best first, as numbers of lists; kNoList behind the last.
struct OrderedLists {
  std::uint32_t wanted;
  std::uint32_t* lists;   // [queries][wanted]
  std::uint64_t* sorted;  // [queries][room_to_order(wanted)]
  // Where it is known, kNoList behind those of its number as well; and the lists at kPlace: [queries].
  compute::ContrastSteps by_contrast = {};
  std::uint32_t* eighths = nullptr;
};
// Keys of a query that are sorted in the device's memory; 0: they are in shared memory.
std::uint32_t room_to_order(std::uint32_t wanted);
void launch_order_lists(const RabitqBest& best, std::uint32_t queries, const OrderedLists& order,
                        std::size_t shared_memory, cudaStream_t stream);

}  // namespace warplite::gpu

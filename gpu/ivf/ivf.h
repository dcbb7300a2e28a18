// Inverted files (compute/ivf.h) as kernels see them, and the steps of a search. Plain data, the same
// for host and device code; pointers are device addresses unless they say otherwise.
//
// A search of many queries is ordered by list, so that codes are read once for several queries; the
// k best come from two passes. Rows of a list are taken in groups of 32, one warp's worth. The
// first pass keeps the least (score, ordinal) of each group: the R-th least of those bounds the R-th
// row, and no more than R groups reach below it. The second pass scores those groups again and
// keeps what is within the bound. So nothing overflows, and ties cost nothing.
// papers/faiss-gpu-2017 §5.3 asks for the order by list and for two levels of selection.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "compute/ivf.h"
#include "gpu/batch/nominate.h"
#include "gpu/batch/shadow.h"
#include "gpu/rows/row_table.h"

namespace warplite::gpu {

inline constexpr std::uint32_t kGroupRows = compute::kFastScanRows;
// Rows per query that may be nominated: n·k, or k for whole vectors.
inline constexpr std::uint32_t kMostNominated = 1024;

struct IvfRunView {
  const std::uint32_t* begins;
  const std::uint32_t* ends;
  const std::uint32_t* ordinals;
  const float* bias;
  const std::uint8_t* codes;
  const std::uint8_t* records;  // RaBitQ codes
  std::uint32_t first_ordinal;
  std::uint32_t reserved;
  // RaBitQ codes: which positions of each group of kGroupRows take part; null: all that have rows.
  const std::uint32_t* live;
};

struct IvfTables {
  std::uint8_t* entries;  // [queries][m · codewords]
  float* steps;           // [queries]
  float* offsets;         // [queries]
};

// The lists that each query probes.
inline constexpr std::uint32_t kNoList = 0xffffffffu;
struct IvfProbes {
  std::uint32_t count;          // of each query: nprobe
  std::uint32_t* lists;         // [queries][count]; kNoList: none that is at a distance
  float* distances;             // [queries][count], D of compute/ivf.h
  std::uint32_t* first_groups;  // [queries][count + 1], groups of the probes before; last: of all
  compute::ContrastSteps by_contrast;  // where it is known, kNoList behind those of its number
};

// The same, by list: what one thread block scans is a unit of up to so many pairs.
inline constexpr std::uint32_t kUnitQueries = 16;
struct IvfPairs {
  std::uint32_t* counts;       // [lists], zero before; afterwards where the next pair would go
  std::uint32_t* first_pairs;  // [lists + 1]
  std::uint32_t* first_units;  // [lists + 1]
  uint2* pairs;                // (query, probe), [queries · nprobe]
};

// Pairs of the probes first … end − 1.
struct IvfPairWork {
  const std::uint32_t* lists;  // [queries][stride]; kNoList: none
  std::uint32_t queries, stride, first, end;
  std::uint32_t list_count;
  std::uint32_t unit_queries;
  IvfPairs pairs;
};
void launch_ivf_pairs(const IvfPairWork& work, cudaStream_t stream);

struct IvfSearchView {
  compute::IvfShape shape;
  Distance distance;           // of the column
  ElementType type;
  const IvfRunView* runs;
  std::uint32_t run_count;
  RowTable table;              // all rows of all runs
  bool all_live;
  std::uint32_t queries;
  IvfTables tables;            // shape.m != 0
  QueryTerms terms;            // shape.m == 0: the column's queries
  const float* raw;            // slack != 0: the same, as they came
  IvfProbes probes;
  IvfPairs pairs;
  bool direct;                 // few pairs: each is a unit, in the order of probes
  // If not 0, groups' keys are squared distances in float32, off by a third of it at most.
  float slack;
  std::uint64_t* least;        // [queries][group_stride] keys; see ivf_score.cuh
  std::uint32_t group_stride;
  std::uint32_t nominated;     // R
  std::uint64_t* collected;    // [queries][collect_stride]
  std::uint32_t collect_stride;
  std::uint32_t* collected_counts;  // [queries]; above collect_stride: some were dropped
};

struct IvfTableWork {
  compute::IvfShape shape;
  bool product;                // ip
  const float* queries;        // [queries][dim], in model space
  std::uint32_t count;
  const float* mean;           // [dim]; null for ip
  const float* codebooks;
  IvfTables out;
};
void launch_ivf_tables(const IvfTableWork& work, cudaStream_t stream);

// The `count` nearest of the lists of one query by (distance, list), nearest first, into `out`.
// `distances`: of all lists, as launch_scan() leaves them. `lost` is set, in memory that the host
// reads, when too many are equally far. REQUIRES: count ≤ kMostSorted.
inline constexpr std::uint32_t kMostSorted = 1024;
void launch_nearest_lists(const double* distances, std::uint32_t lists, std::uint32_t count,
                          Candidate* out, std::uint32_t* lost, cudaStream_t stream);

// `nearest`: per query at least probes.count centroids, nearest first, `room` apart; those at no
// finite distance are none. Sorts the pairs by list.
void launch_ivf_probes(const IvfSearchView& search, const Candidate* nearest, std::uint32_t room,
                       cudaStream_t stream);
// Units that there can be.
std::uint32_t most_units(const IvfSearchView& search);

// Says whether whole vectors of this kind are scanned in float32 first, and how far that is off.
float ivf_slack(const compute::IvfShape& shape, ElementType type, Distance distance);
std::size_t ivf_scan_shared(const compute::IvfShape& shape);
void launch_ivf_scan(const IvfSearchView& search, cudaStream_t stream);
// Limits from `least`; what is within them into `collected`.
void launch_ivf_collect(const IvfSearchView& search, cudaStream_t stream);

// The `nominated` least of what was collected: their ordinals, in any order, into
// out.ordinals[q · capacity …], their number into out.counts. Whole vectors: all that tie, too.
void launch_ivf_nominate(const IvfSearchView& search, const Nominees& out, cudaStream_t stream);
// The same as results, with distances of the codes: out[q · nominated …].
void launch_ivf_emit(const IvfSearchView& search, Candidate* out, std::uint32_t* found,
                     cudaStream_t stream);

}  // namespace warplite::gpu

// Inner loops of work that is always the host's own: products of matrices in training, hash functions
// of rows, values that a filter tests, rotations and codes of rows, the vectors of documents. The
// definitions are here; a device of the host may bring faster ones, with the same results to the bit:
// numbers are added in the same order, and no product that may be rounded is fused with a sum.
// Threads: any; the functions keep no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/distance.h"
#include "core/types.h"

namespace warplite::compute {

// out[rows][columns] += a[rows][depth] · b[depth][columns], element by element in the order of
// `depth`.
struct ProductKernels {
  static constexpr std::size_t kMostRows = 6, kMostColumns = 32;

  std::size_t rows, columns;  // of a block; at most those
  // Of one block. `a` and `panel` are dense; rows of `out` are `leading` apart.
  void (*add_block)(const float* a, std::size_t depth, const float* panel, float* out,
                    std::size_t leading);
  // Of one row and any number of columns.
  void (*add_row)(const float* a, std::size_t depth, const float* b, std::size_t columns,
                  float* out);
};

// Hash functions (index/lsh/lsh.h) that are computed together. Numbers that are not there are 0.
struct HashPanel {
  static constexpr std::size_t kFunctions = 8;

  const float* factors;           // [dim][kFunctions]
  const float* offsets;           // of cells [dim][kFunctions], of projections [kFunctions]
  std::uint32_t first;            // the number of the first of them
  std::uint32_t functions;        // that there are
  std::uint32_t dim, buckets, m;  // m: numbers from one row of the output to the next
};

// rows[count][dim] → out[i * m], of every row and function a bucket. Sums are in the order of `dim`.
using HashRows = void (*)(const HashPanel& panel, const double* rows, std::size_t count,
                          std::uint32_t* out);

// Bit i of masks[w]: whether values[64 w + i] is from low to high, for `words` times 64 values.
// REQUIRES: low <= high, and no value is NaN.
template <typename T>
using MaskInterval = void (*)(const T* values, std::size_t words, T low, T high,
                              std::uint64_t* masks);

// Uniform quantisers that are tried on the same magnitudes, none of which is negative: by quantiser i the
// level of a magnitude x is min(⌊x · scales[i]⌋, most) + ½.
struct LevelTries {
  static constexpr std::size_t kTries = 8;

  std::span<const double> magnitudes;
  double scales[kTries], most;
  double products[kTries], squares[kTries];  // out: Σ level · x and Σ level²
};

// Rows in groups, as the vectors of documents are, and queries of their type and dim.
struct GroupedRows {
  Distance distance;
  MatrixView queries;
  std::span<const std::byte* const> rows;  // a vector each; those of a group follow one another
  std::span<const std::uint32_t> ends;     // of the groups, in `rows`, of which they are all
};

// out[g * queries.rows + q]: the canonical distance (compute/reference.h) of query q and the row of group g
// that is nearest to it; infinity for a group without rows. May throw Error{kInterrupted}.
using NearestInGroups = void (*)(const GroupedRows& work, double* out);

struct RotationRound;  // rotation.h

struct HostKernels {
  ProductKernels product;

  HashRows hash_cells;  // the hash of the numbers of the cell of a grid that a row is in
  HashRows hash_sums;   // of the number of the interval that its projection is in
  HashRows hash_signs;  // 1 where its projection is 0 or more

  MaskInterval<std::int64_t> mask_integers;
  MaskInterval<double> mask_reals;
  // Bit i of masks[w]: whether ends[64 w + i] is `length` more than the one before, which is
  // ends[-1] for the first.
  void (*mask_lengths)(const std::uint32_t* ends, std::size_t words, std::uint32_t length,
                       std::uint64_t* masks);
  // Bits that are set.
  std::size_t (*count_bits)(const std::uint64_t* words, std::size_t n);

  void (*try_levels)(LevelTries& tries);

  // A round of a rotation. REQUIRES: round.n >= kLeastTransform
  static constexpr std::uint32_t kLeastTransform = 16;
  void (*rotation_round)(const RotationRound& round, float* vector);

  NearestInGroups nearest_in_groups;

  HostKernels();  // the definitions
};

// Those in use: the definitions until set_host_kernels() has said where others are.
const HostKernels& host_kernels();
void set_host_kernels(const HostKernels& (*in_use)());

}  // namespace warplite::compute

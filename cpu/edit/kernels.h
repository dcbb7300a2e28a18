// The inner loops of edit distances, a part of the table of kernels of each SIMD target: a group of
// texts (compute/edit.h), a text to a lane, against one query. Rows of the dynamic programme are
// the characters of the texts, columns those of the query: its character is the same for all lanes, so
// that where it occurs in them is read as vectors, and no lane looks anything up.
// Rows are held in blocks of 16 bits of every lane, some blocks together being a stripe.
// Threads: the functions keep no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplite::cpu {

constexpr std::size_t kEditLanes = 32;
constexpr std::size_t kEditBlockRows = 16;
constexpr std::size_t kEditStripeBlocks = 8;
constexpr std::size_t kEditStripeRows = kEditStripeBlocks * kEditBlockRows;
// Numbers of a block's rows, a bit to a row: u16[lanes].
constexpr std::size_t kEditBlockSize = kEditLanes;

// Columns of a query, as a stripe of a group is advanced by them.
struct EditColumns {
  const std::uint16_t* masks = nullptr;    // [block][lane] at each offset
  const std::uint32_t* offsets = nullptr;  // by number of character
  const std::uint32_t* numbers = nullptr;  // of each column
  std::size_t count = 0;
  // Carries from the stripe above, in whose place this stripe leaves those for the one below:
  // [column][up, down][lane], each 0 or 1. Null: the stripe is the only one.
  std::uint16_t* carries = nullptr;
};

// Distances to a pivot that may be of use (compute/edit_metric.h).
struct PivotTest {
  std::uint32_t pivot = 0;
  std::uint8_t low = 0, high = 0;
};

struct EditKernels {
  // Finds in which rows of a stripe each lane has each of some symbols: masks[symbol][block][lane],
  // for as many blocks as the positions take. There is one for each width of symbols: 1, 2, 4.
  using Find = void (*)(const std::byte* symbols, std::size_t positions,
                        const std::uint32_t* wanted, std::size_t count, std::uint16_t* masks);
  Find find[3] = {};

  // state[block][not plus, minus][lane]: vertical differences that are not +1, and that are −1.
  // They are zeros before the first column. There is one for each number of blocks, less one.
  using Advance = void (*)(const EditColumns& columns, std::uint16_t* state);
  Advance advance[kEditStripeBlocks] = {};

  // Adds the differences of those rows[block][lane] to sums[lane].
  void (*sum)(const std::uint16_t* state, const std::uint16_t* rows, std::size_t blocks,
              std::int16_t* sums) = nullptr;
  // A bit for each lane whose sum is at most that.
  std::uint32_t (*at_most)(const std::int16_t* sums, std::int16_t limit) = nullptr;

  // A bit for each lane whose value is within [low, high].
  std::uint32_t (*between)(const std::uint16_t* values, std::uint16_t low,
                           std::uint16_t high) = nullptr;
  // Each returns a bit for each lane that passes all tests. For texts: distances[pivot][lane]. For
  // groups with distances from lows to highs: bounds[pivot][lows, highs][lane].
  std::uint32_t (*texts_left)(const std::uint8_t* distances, const PivotTest* tests,
                              std::size_t count) = nullptr;
  std::uint32_t (*groups_left)(const std::uint8_t* bounds, const PivotTest* tests,
                               std::size_t count) = nullptr;
};

// The table of the SIMD target in use. Valid for the life of the process.
const EditKernels& edit_kernels();

}  // namespace warplite::cpu

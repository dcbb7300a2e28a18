// The inner loops of product quantisation (compute/ivf.h has the arithmetic), a part of the table
// of kernels of each SIMD target.
// Threads: the functions keep no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplite::cpu {

// Codebooks as the loops read them (pq_codebook.h).
struct PqCodebookView {
  std::uint32_t m = 0, sub_dim = 0;
  std::uint32_t codewords = 0;    // that there are
  std::uint32_t padded = 0;       // a multiple of 16; zeros behind the last
  const float* columns = nullptr;  // [m][sub_dim][padded]
  const float* halves = nullptr;   // [m][padded], h of ivf.h; infinity behind the last
};

// T8, step and offset of ivf.h.
struct PqTables {
  std::uint8_t* entries = nullptr;  // [m][codewords]
  float step = 1, offset = 0;
};

// Sub-spaces whose sums fit 16 bits.
constexpr std::uint32_t kSummedSpaces = 256;

// Positions of a run that are scored together, and the query they are scored for.
struct PqScores {
  const std::uint16_t* sums = nullptr;  // or, of more than kSummedSpaces, `wide`
  const std::uint32_t* wide = nullptr;
  const float* bias = nullptr;
  std::size_t n = 0;
  float step = 1, a = 0;
};

struct PqKernels {
  // `z` as in ivf.h; T is `factor` times t. `scratch`: m · (codewords + 1) floats. REQUIRES: no
  // padding.
  void (*tables)(const PqCodebookView& book, const float* z, float factor, float* scratch,
                 PqTables& out) = nullptr;

  // The codes of `count` rows of m · sub_dim floats: out[row · m + s].
  void (*assign)(const PqCodebookView& book, const float* rows, std::size_t count,
                 std::uint8_t* out) = nullptr;

  // Σ T8 over m sub-spaces of n rows of 8-bit codes, `stride` bytes from row to row.
  // REQUIRES: m <= kSummedSpaces.
  void (*sum_bytes)(const std::uint8_t* entries, const std::uint8_t* codes, std::size_t stride,
                    std::uint32_t m, std::size_t n, std::uint16_t* sums) = nullptr;

  // Σ T8 over m sub-spaces of `groups` times 32 rows of 4-bit codes, `stride` bytes from group to
  // group; for one query, or two. REQUIRES: m <= kSummedSpaces.
  void (*sum_nibbles)(const std::uint8_t* entries, const std::uint8_t* codes, std::size_t stride,
                      std::uint32_t m, std::size_t groups, std::uint16_t* sums) = nullptr;
  void (*sum_nibbles_of_two)(const std::uint8_t* const entries[2], const std::uint8_t* codes,
                             std::size_t stride, std::uint32_t m, std::size_t groups,
                             std::uint16_t* const sums[2]) = nullptr;

  // Writes the places in ascending order where the score does not exceed `limit` or is NaN, with
  // scores[place], and returns their number. `scores` and `places` have room for n, rounded up
  // to 16.
  std::size_t (*survivors)(const PqScores& of, float limit, float* scores,
                           std::uint32_t* places) = nullptr;
};

// The table of the SIMD target in use. Valid for the life of the process.
const PqKernels& pq_kernels();

}  // namespace warplite::cpu

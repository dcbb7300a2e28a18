// The inner loops of exact search: canonical scores, float32 screens, and the product that nominates
// rows for batches. Everything around these loops is ordinary C++.
// Threads: tables are constant once filled; the functions keep no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/distance.h"
#include "core/types.h"
#include "cpu/runtime/targets.h"

namespace warplite::cpu {

// A query in the form that the canonical loops read.
struct PreparedQuery {
  std::uint32_t dim = 0;
  std::size_t stride = 0;                // bytes from one row to the next
  const double* reals = nullptr;         // real elements: padded with zeros to a multiple of 16
  const std::int16_t* shorts = nullptr;  // INT8: padded with zeros to a multiple of 64
  const std::byte* bytes = nullptr;      // BIT: as given
  double norm = 0;                       // cosine: the canonical sum of squares
};

// Scores rows[0..n) of `base`, each a row number. The score of l2 is the sum under
// the root; of every other distance it is the canonical distance itself.
using ScoreRows = void (*)(const PreparedQuery& query, const std::byte* base,
                           const std::uint32_t* rows, std::size_t n, double* scores);

// A query in the form that the screening loops read (screen.h).
struct ScreenQuery {
  std::uint32_t dim = 0;
  std::size_t stride = 0;         // bytes from one row to the next
  const float* floats = nullptr;  // padded with zeros to a multiple of 32
  float slack = 0;                // ip: times a row's norm, what the product may be off by
};

// Computes for rows[0..n) of `base` a float32 number that, but for rounding, ascends with the
// distance:
//   l2: the sum under the root   l1: the distance   ip: −dot − slack·‖row‖
//   cosine: −dot / ‖row‖, −infinity for a row whose norm is out of range
// May be NaN, which proves nothing.
using ScreenRows = void (*)(const ScreenQuery& query, const std::byte* base,
                            const std::uint32_t* rows, std::size_t n, float* lows);

// Says how vectors become the float32 operands of the bounded product (bounded_product.h).
struct PackSource {
  ElementType type = ElementType::kFloat32;
  std::uint32_t dim = 0;
  const float* centre = nullptr;  // dim floats that are subtracted, or null
  float scale = 1;
  bool unit = false;              // divide each vector by its norm instead
};

// The least of some numbers, where it was, and the least of the others.
struct LeastTwo {
  float least = std::numeric_limits<float>::infinity();
  float second = std::numeric_limits<float>::infinity();
  std::uint32_t at = 0;
};

// Memory that is read next, asked for little by little while something else is done.
struct Ahead {
  const std::byte* bytes = nullptr;  // null: nothing
  std::size_t each = 0;              // bytes of an element of a row
};

struct GemmKernels {
  // Elements of a row that follow one another in a tile of strips.
  static constexpr std::size_t kStrip = 64;

  // So many queries, stored [element][query], and what multiplies them by the rows of a tile.
  struct Panel {
    std::size_t queries = 0;
    // A tile is stored [element / kStrip][row][element % kStrip], or else [element][row].
    bool strips = false;
    // Products are stored [row][query], or else [query][row].
    bool by_row = false;
    // dots[q * leading + r] (+)= the sum over `depth` elements, q < queries, r < rows. Strips are
    // multiplied as a whole: nothing is accumulated. By row it is dots[r * queries + q].
    void (*multiply)(const float* panel, const float* tile, std::size_t depth, bool accumulate,
                     float* dots, std::size_t leading, Ahead ahead) = nullptr;
    // If not null, two elements in bfloat16 are multiplied in the place of one: these make them of
    // the strips of a tile, and of a panel, of `dim` elements. An odd last one is paired with zero.
    void (*narrow_tile)(const float* tile, std::size_t dim, float* to) = nullptr;
    void (*narrow_panel)(const float* panel, std::size_t dim, float* to) = nullptr;
  };
  // Of as many queries as registers hold sums for, or fewer: many queries share what transposing the
  // rows takes.
  Panel wide, narrow;
  // Of two vectors of queries, of one and a half, or of one, for strips.
  Panel few, between, fewer;
  // Those whose products are looked at row by row, the nearest of each group of rows.
  Panel few_by_row, fewer_by_row;
  std::size_t rows = 0;  // of a tile

  // Panels of what the queries fill best: places that no query takes are multiplied all the same.
  const Panel& panel_for(std::size_t queries) const {
    const auto places = [queries](const Panel& panel) {
      return (queries + panel.queries - 1) / panel.queries * panel.queries;
    };
    if (queries <= fewer.queries) return fewer;
    if (queries <= kFew) return places(between) < places(few) ? between : few;
    return places(narrow) + places(narrow) / 16 < places(wide) ? narrow : wide;
  }

  const Panel& panel_by_row(std::size_t queries) const {
    return queries <= fewer_by_row.queries ? fewer_by_row : few_by_row;
  }

  // Packs `width` vectors (null: zeros) as [element][vector], or `rows` of them as strips, and writes
  // the squared norm of each as packed (unit vectors: as given).
  using Pack = void (*)(const PackSource& source, const std::byte* const* vectors,
                        std::size_t width, float* packed, double* squares);
  Pack pack = nullptr, pack_strips = nullptr;

  // Writes the positions r < n where dots[r] + slack * norms[r] >= halves[r] + offset,
  // in ascending order, and returns their number. REQUIRES: n % rows == 0.
  std::size_t (*survivors)(const float* dots, const float* halves, const float* norms,
                           std::size_t n, float slack, float offset, std::uint32_t* out) = nullptr;

  // Adds halves[r] − (dots[r] + slack · norms[r]), r < n, at first + r. REQUIRES: n % rows == 0;
  // none of them is NaN.
  void (*least_two)(const float* dots, const float* halves, const float* norms, std::size_t n,
                    float slack, std::uint32_t first, LeastTwo& out) = nullptr;

  // Products of n rows by the `width` queries of a panel by row: the row where each query's halves[r] −
  // (dot + slacks[q] · norms[r]) is least, and the positions r * width + q where it is offsets[q] above or
  // less. REQUIRES: none of them is NaN.
  void (*nearest_rows)(const float* dots, const float* halves, const float* norms, std::size_t n,
                       const float* slacks, std::size_t width, std::uint32_t* nearest) = nullptr;
  std::size_t (*near_rows)(const float* dots, const float* halves, const float* norms, std::size_t n,
                           const float* slacks, const float* offsets, std::size_t width,
                           std::uint32_t* out) = nullptr;

 private:
  static constexpr std::size_t kFew = 64;  // queries; measured: beyond, transposing wins
};

struct ScanKernels {
  ScoreRows scores[8][8] = {};    // [ElementType][Distance]
  ScreenRows screens[8][8] = {};  // of real elements; null: none
  GemmKernels gemm;

  ScoreRows score(ElementType type, Distance distance) const {
    return scores[static_cast<int>(type)][static_cast<int>(distance)];
  }
};

// Each returns what one file of these loops fills.
TargetFills<ScanKernels> real_fills();
TargetFills<ScanKernels> integer_fills();
TargetFills<ScanKernels> screen_fills();
TargetFills<ScanKernels> gemm_fills();
TargetFills<ScanKernels> pack_fills();
TargetFills<ScanKernels> group_fills();  // after those of the product

// The table of the SIMD target in use. Valid for the life of the process.
const ScanKernels& scan_kernels();

}  // namespace warplite::cpu

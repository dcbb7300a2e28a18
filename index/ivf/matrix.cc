#include "index/ivf/matrix.h"

#include <algorithm>
#include <cstring>

#include "compute/parallel.h"

namespace warplite::index {
namespace {

constexpr std::size_t kDepth = 256;  // a panel of b in the first-level cache
constexpr std::size_t kBlockRows = 132;  // whose part of a stays in the second-level cache
constexpr std::size_t kThreadSteps = std::size_t{1} << 20;  // multiply-adds worth a thread

#define WARPLITE_INLINE inline __attribute__((always_inline))

// Left to themselves compilers keep the sums in memory, at a third of the speed. Every width adds
// the same terms to each element in the same order, none of them fused.
using Quad = float __attribute__((vector_size(16)));
using Octet = float __attribute__((vector_size(32)));
using Sixteen = float __attribute__((vector_size(64)));

// out[Rows][columns] += a[Rows][depth] · panel[depth][columns], where columns are two vectors.
template <class Vector, std::size_t Rows>
WARPLITE_INLINE void add_block(const float* a, std::size_t depth, const float* panel, float* out,
                               std::size_t out_leading) {
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);
  Vector low[Rows], high[Rows];
  for (std::size_t r = 0; r < Rows; ++r) {
    std::memcpy(&low[r], out + r * out_leading, sizeof(Vector));
    std::memcpy(&high[r], out + r * out_leading + kLanes, sizeof(Vector));
  }
  for (std::size_t d = 0; d < depth; ++d) {
    Vector b0, b1;
    std::memcpy(&b0, panel + d * 2 * kLanes, sizeof(Vector));
    std::memcpy(&b1, panel + d * 2 * kLanes + kLanes, sizeof(Vector));
    for (std::size_t r = 0; r < Rows; ++r) {
      const float x = a[r * depth + d];
      low[r] += x * b0;
      high[r] += x * b1;
    }
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    std::memcpy(out + r * out_leading, &low[r], sizeof(Vector));
    std::memcpy(out + r * out_leading + kLanes, &high[r], sizeof(Vector));
  }
}

// out[rows][columns] += a[rows][depth] · b[depth][columns], each dense. depth <= kDepth.
struct Part {
  const float* a;
  std::size_t rows, depth;
  const float* b;
  std::size_t columns;
  float* out;
};

// Adds the products of `Rows` rows; the last columns may be fewer than a panel has.
template <class Vector, std::size_t Rows>
WARPLITE_INLINE void add_rows(const Part& part, const float* panel, std::size_t row,
                              std::size_t c) {
  constexpr std::size_t kColumns = 2 * sizeof(Vector) / sizeof(float);
  const float* a = part.a + row * part.depth;
  float* out = part.out + row * part.columns + c;
  const std::size_t wide = std::min(kColumns, part.columns - c);
  if (wide == kColumns) {
    return add_block<Vector, Rows>(a, part.depth, panel, out, part.columns);
  }
  float sums[Rows * kColumns] = {};
  for (std::size_t r = 0; r < Rows; ++r) {
    std::copy_n(out + r * part.columns, wide, sums + r * kColumns);
  }
  add_block<Vector, Rows>(a, part.depth, panel, sums, kColumns);
  for (std::size_t r = 0; r < Rows; ++r) {
    std::copy_n(sums + r * kColumns, wide, out + r * part.columns);
  }
}

// One row alone is not worth a panel.
WARPLITE_INLINE void add_row(const Part& part, std::size_t row) {
  float* const out = part.out + row * part.columns;
  for (std::size_t d = 0; d < part.depth; ++d) {
    const float x = part.a[row * part.depth + d];
    const float* const b = part.b + d * part.columns;
    for (std::size_t c = 0; c < part.columns; ++c) out[c] += x * b[c];
  }
}

template <class Vector, std::size_t Rows>
WARPLITE_INLINE void add_part(const Part& part) {
  constexpr std::size_t kColumns = 2 * sizeof(Vector) / sizeof(float);
  const std::size_t together = part.rows / Rows * Rows;
  alignas(64) float panel[kDepth * kColumns];
  for (std::size_t c = 0; c < part.columns && together != 0; c += kColumns) {
    const std::size_t wide = std::min(kColumns, part.columns - c);
    for (std::size_t d = 0; d < part.depth; ++d) {
      float* const to = panel + d * kColumns;
      std::copy_n(part.b + d * part.columns + c, wide, to);
      std::fill(to + wide, to + kColumns, 0.0f);
    }
    for (std::size_t r = 0; r < together; r += Rows) add_rows<Vector, Rows>(part, panel, r, c);
  }
  for (std::size_t r = together; r < part.rows; ++r) add_row(part, r);
}

// Each adds so many rows at once as hide how long an addition takes, and as registers hold.
using AddPart = void (*)(const Part& part);

void add_by_quads(const Part& part) { add_part<Quad, 4>(part); }

#if defined(__x86_64__)
__attribute__((target("avx2"))) void add_by_octets(const Part& part) { add_part<Octet, 6>(part); }

__attribute__((target("avx512f"))) void add_by_sixteens(const Part& part) {
  add_part<Sixteen, 6>(part);
}
#endif

AddPart widest_of_machine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return add_by_sixteens;
  if (__builtin_cpu_supports("avx2")) return add_by_octets;
#endif
  return add_by_quads;
}

}  // namespace

void multiply(const float* a, std::size_t rows, std::size_t depth, const float* b,
              std::size_t columns, float* out, const std::function<void()>& poll) {
  static const AddPart kAdd = widest_of_machine();
  compute::in_parallel(rows, kBlockRows, rows * depth * columns / kThreadSteps,
                       [&](std::size_t begin, std::size_t end) {
    std::fill(out + begin * columns, out + end * columns, 0.0f);
    std::vector<float> packed(std::min(kBlockRows, end - begin) * std::min(kDepth, depth));
    for (std::size_t first = begin; first < end; first += kBlockRows) {
      const std::size_t count = std::min(kBlockRows, end - first);
      for (std::size_t d = 0; d < depth; d += kDepth) {
        if (poll) poll();
        const std::size_t deep = std::min(kDepth, depth - d);
        for (std::size_t r = 0; r < count; ++r) {
          std::copy_n(a + (first + r) * depth + d, deep, packed.data() + r * deep);
        }
        kAdd({packed.data(), count, deep, b + d * columns, columns, out + first * columns});
      }
    }
  });
}

std::vector<float> transpose(const float* a, std::size_t rows, std::size_t columns) {
  constexpr std::size_t kTile = 16;
  std::vector<float> out(rows * columns);
  for (std::size_t r = 0; r < rows; r += kTile) {
    for (std::size_t c = 0; c < columns; c += kTile) {
      for (std::size_t i = r; i < std::min(rows, r + kTile); ++i) {
        for (std::size_t j = c; j < std::min(columns, c + kTile); ++j) {
          out[j * rows + i] = a[i * columns + j];
        }
      }
    }
  }
  return out;
}

}  // namespace warplite::index

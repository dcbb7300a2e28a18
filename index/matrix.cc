#include "index/matrix.h"

#include <algorithm>
#include <cstring>

#include "compute/parallel.h"

namespace warplite::index {
namespace {

// The block of sums that fits sixteen registers of four.
constexpr std::size_t kRows = 4;
constexpr std::size_t kColumns = 8;
constexpr std::size_t kDepth = 256;  // a panel of b in the first-level cache
constexpr std::size_t kGrainRows = 64;
constexpr std::size_t kThreadSteps = std::size_t{1} << 20;  // multiply-adds worth a thread

// Left to themselves compilers keep these sums in memory, at a third of the speed.
using Quad = float __attribute__((vector_size(16)));

Quad load(const float* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}

// out[kRows][kColumns] += a[kRows][depth] · panel[depth][kColumns]
void add_block(const float* a, std::size_t leading, const float* panel, std::size_t depth,
               float* out, std::size_t out_leading) {
  static_assert(kRows == 4 && kColumns == 8);
  Quad low[kRows], high[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    low[r] = load(out + r * out_leading);
    high[r] = load(out + r * out_leading + 4);
  }
  for (std::size_t d = 0; d < depth; ++d) {
    const Quad b0 = load(panel + d * kColumns), b1 = load(panel + d * kColumns + 4);
    for (std::size_t r = 0; r < kRows; ++r) {
      const float x = a[r * leading + d];
      low[r] += x * b0;
      high[r] += x * b1;
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    std::memcpy(out + r * out_leading, &low[r], sizeof low[r]);
    std::memcpy(out + r * out_leading + 4, &high[r], sizeof high[r]);
  }
}

// Fewer rows or columns than a block has are done one by one.
void add_edge(const float* a, std::size_t leading, std::size_t rows, const float* panel,
              std::size_t depth, std::size_t columns, float* out, std::size_t out_leading) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      float sum = out[r * out_leading + c];
      for (std::size_t d = 0; d < depth; ++d) sum += a[r * leading + d] * panel[d * kColumns + c];
      out[r * out_leading + c] = sum;
    }
  }
}

struct Product {
  const float* a;
  std::size_t depth;
  const float* b;
  std::size_t columns;
  float* out;

  // Rows first … last of the result, for one panel of b.
  void add_panel(std::size_t first, std::size_t last, std::size_t d, std::size_t c) const {
    const std::size_t deep = std::min(kDepth, depth - d), wide = std::min(kColumns, columns - c);
    float panel[kDepth * kColumns];
    for (std::size_t i = 0; i < deep; ++i) {
      std::copy_n(b + (d + i) * columns + c, wide, panel + i * kColumns);
    }
    for (std::size_t r = first; r < last; r += kRows) {
      const float* rows = a + r * depth + d;
      float* to = out + r * columns + c;
      if (last - r < kRows || wide < kColumns) {
        add_edge(rows, depth, std::min(kRows, last - r), panel, deep, wide, to, columns);
      } else {
        add_block(rows, depth, panel, deep, to, columns);
      }
    }
  }
};

}  // namespace

void multiply(const float* a, std::size_t rows, std::size_t depth, const float* b,
              std::size_t columns, float* out, const std::function<void()>& poll) {
  const Product product{a, depth, b, columns, out};
  compute::in_parallel(rows, kGrainRows, rows * depth * columns / kThreadSteps,
                       [&](std::size_t first, std::size_t last) {
    std::fill(out + first * columns, out + last * columns, 0.0f);
    for (std::size_t d = 0; d < depth; d += kDepth) {
      if (poll) poll();
      for (std::size_t c = 0; c < columns; c += kColumns) product.add_panel(first, last, d, c);
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

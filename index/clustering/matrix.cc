#include "index/clustering/matrix.h"

#include <algorithm>

#include "compute/host/host_kernels.h"
#include "compute/host/parallel.h"

namespace warplite::index {
namespace {

constexpr std::size_t kDepth = 256;  // a panel of b in the first-level cache
constexpr std::size_t kBlockRows = 132;  // whose part of a stays in the second-level cache
constexpr std::size_t kThreadSteps = std::size_t{1} << 20;  // multiply-adds worth a thread

using compute::ProductKernels;

// out[rows][columns] += a[rows][depth] · b[depth][columns], each dense. depth <= kDepth.
struct Part {
  const float* a;
  std::size_t rows, depth;
  const float* b;
  std::size_t columns;
  float* out;
};

// Adds the products of a block of rows; the last columns may be fewer than a panel has.
void add_rows(const ProductKernels& kernels, const Part& part, const float* panel, std::size_t row,
              std::size_t c) {
  const float* a = part.a + row * part.depth;
  float* out = part.out + row * part.columns + c;
  const std::size_t wide = std::min(kernels.columns, part.columns - c);
  if (wide == kernels.columns) {
    return kernels.add_block(a, part.depth, panel, out, part.columns);
  }
  float sums[ProductKernels::kMostRows * ProductKernels::kMostColumns] = {};
  for (std::size_t r = 0; r < kernels.rows; ++r) {
    std::copy_n(out + r * part.columns, wide, sums + r * kernels.columns);
  }
  kernels.add_block(a, part.depth, panel, sums, kernels.columns);
  for (std::size_t r = 0; r < kernels.rows; ++r) {
    std::copy_n(sums + r * kernels.columns, wide, out + r * part.columns);
  }
}

void add_part(const ProductKernels& kernels, const Part& part) {
  const std::size_t together = part.rows / kernels.rows * kernels.rows;
  alignas(64) float panel[kDepth * ProductKernels::kMostColumns];
  for (std::size_t c = 0; c < part.columns && together != 0; c += kernels.columns) {
    const std::size_t wide = std::min(kernels.columns, part.columns - c);
    for (std::size_t d = 0; d < part.depth; ++d) {
      float* const to = panel + d * kernels.columns;
      std::copy_n(part.b + d * part.columns + c, wide, to);
      std::fill(to + wide, to + kernels.columns, 0.0f);
    }
    for (std::size_t r = 0; r < together; r += kernels.rows) {
      add_rows(kernels, part, panel, r, c);
    }
  }
  // One row alone is not worth a panel.
  for (std::size_t r = together; r < part.rows; ++r) {
    kernels.add_row(part.a + r * part.depth, part.depth, part.b, part.columns,
                    part.out + r * part.columns);
  }
}

}  // namespace

void multiply(const float* a, std::size_t rows, std::size_t depth, const float* b,
              std::size_t columns, float* out, const std::function<void()>& poll) {
  const ProductKernels& kernels = compute::host_kernels().product;
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
        add_part(kernels, {packed.data(), count, deep, b + d * columns, columns,
                           out + first * columns});
      }
    }
  });
}

double square_norm(const float* vector, std::size_t dim) {
  double sum = 0;
  for (std::size_t d = 0; d < dim; ++d) {
    const double x = vector[d];
    sum += x * x;
  }
  return sum;
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

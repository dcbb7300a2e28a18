// What the product of a batch can prove of distances: whichever kernel multiplies, every distance is within
// its bounds, and these are narrow, whatever else the table holds.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/elements.h"
#include "cpu/runtime/targets.h"
#include "cpu/scan/bounded_product.h"
#include "cpu/scan/scan_kernels.h"

using namespace warplite;
using namespace warplite::cpu;

namespace {

// Vectors of random numbers, of any type of numbers.
struct Vectors {
  Vectors(ElementType type, std::size_t count, std::uint32_t dim, unsigned seed)
      : bytes(count * bytes_per_vector(type, dim)),
        view{bytes.data(), count, dim, type} {
    std::mt19937 random(seed);
    if (type == ElementType::kInt8) {
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      return;
    }
    std::uniform_real_distribution<float> unit(0, 1);
    for (std::size_t i = 0; i < count * dim; ++i) set(i, unit(random));
  }
  void set(std::size_t i, float value) {
    if (view.type == ElementType::kFloat32) {
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    } else {  // a half between 1 and 2
      const auto half = static_cast<std::uint16_t>(0x3c00 | static_cast<int>(value * 0x3ff));
      std::memcpy(bytes.data() + i * sizeof half, &half, sizeof half);
    }
  }
  std::vector<const std::byte*> rows() const {
    std::vector<const std::byte*> all;
    for (std::size_t i = 0; i < view.rows; ++i) all.push_back(view.row(i));
    return all;
  }

  std::vector<std::byte> bytes;
  MatrixView view;
};

struct Exact {
  double distance;
  double scale;  // what bounds are narrow against
};

Exact distance_of(Distance distance, const MatrixView& of, const std::byte* x, const std::byte* y) {
  double dot = 0, xx = 0, yy = 0, differences = 0;
  for (std::size_t i = 0; i < of.dim; ++i) {
    const double a = static_cast<double>(element_at(of.type, x, i));
    const double b = static_cast<double>(element_at(of.type, y, i));
    dot += a * b;
    xx += a * a;
    yy += b * b;
    differences += (a - b) * (a - b);
  }
  if (distance == Distance::kL2) return {std::sqrt(differences), std::sqrt(xx + yy)};
  if (distance == Distance::kInnerProduct) return {-dot, std::sqrt(xx * yy)};
  return {1 - dot / std::sqrt(xx * yy), 1};
}

double largest_square(const MatrixView& vectors) {
  double largest = 0;
  for (std::size_t i = 0; i < vectors.rows; ++i) {
    const std::byte* const vector = vectors.row(i);
    largest = std::max(largest, -distance_of(Distance::kInnerProduct, vectors, vector, vector).distance);
  }
  return largest;
}

// Calls check(query, bounds of query and row, the query's number, the row's).
template <class Check>
void multiply_all(const BoundedProduct& product, bool by_row, const Vectors& queries,
                  const Vectors& rows, const Check& check) {
  BoundedProduct::Queries packed;
  product.pack_queries(queries.view, &packed);
  const std::vector<const std::byte*> all = rows.rows();
  BoundedProduct::Rows tile = product.make_rows(product.block_rows());
  std::vector<float> dots(product.dots_bytes() / sizeof(float));
  for (std::size_t first = 0; first < all.size(); first += product.block_rows()) {
    const std::size_t n = std::min(product.block_rows(), all.size() - first);
    product.pack_rows(std::span(all).subspan(first, n), &tile);
    for (std::size_t panel = 0; panel < product.panels_of(queries.view.rows); ++panel) {
      product.multiply(packed, panel, 1, tile, n, dots.data());
      const std::size_t width = product.panel_queries(), begin = panel * width;
      for (std::size_t q = begin; q < std::min(queries.view.rows, begin + width); ++q) {
        for (std::size_t r = 0; r < n; ++r) {
          const float dot = dots[by_row ? r * width + q - begin : (q - begin) * product.block_rows() + r];
          check(packed.bounds[q],
                BoundedProduct::bounds(packed.bounds[q], dot, tile.halves[r], tile.norms[r]), q,
                first + r);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("bounded product: every distance is within its bounds, by every kernel") {
  const std::string best = simd_target();
  unsigned seed = 0;
  for (const std::string& target : simd_targets()) {
    force_simd_target(target);
    for (ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kInt8}) {
      for (Distance distance : {Distance::kL2, Distance::kInnerProduct, Distance::kCosine}) {
        for (std::uint32_t dim : {3u, 64u, 100u, 600u}) {
          for (std::size_t count : {std::size_t{5}, std::size_t{16}, std::size_t{40}, std::size_t{70}}) {
            INFO(target, " ", std::string(property<&ElementInfo::name>(type)), " ", dim, " ", count);
            const Vectors rows(type, 70, dim, ++seed), queries(type, count, dim, ++seed);
            const double largest = std::max(largest_square(rows.view), largest_square(queries.view));
            const GemmKernels& gemm = scan_kernels().gemm;
            for (const GemmKernels::Panel* panel : {&gemm.panel_for(count), &gemm.panel_by_row(count)}) {
              const BoundedProduct product(gemm, *panel, distance, type, dim, rows.rows(),
                                           BoundedProduct::sample_of(queries.view));
              std::size_t wrong = 0, loose = 0;
              multiply_all(product, panel->by_row, queries, rows,
                           [&](const auto& query, const auto& bounds, std::size_t q, std::size_t r) {
                const Exact exact =
                    distance_of(distance, rows.view, queries.view.row(q), rows.view.row(r));
                const double farthest = product.farthest(query, bounds.high);
                wrong += !(farthest >= exact.distance &&
                           bounds.low <= -product.offset(query, exact.distance));
                const double over = farthest - exact.distance;
                // Elements in bfloat16 tell squares, against what norms may be around a centre.
                const bool squared = panel->narrow_tile != nullptr && distance == Distance::kL2;
                loose += squared ? !(over * (farthest + exact.distance) <= 0.06 * largest)
                                 : !(over <= 0.02 * exact.scale);
              });
              CHECK(wrong == 0);
              CHECK(loose == 0);
            }
          }
        }
      }
    }
  }
  force_simd_target(best);
}

TEST_CASE("bounded product: a few rows that lie far away cost the others nothing") {
  constexpr std::uint32_t kDim = 32, kFar = 6;
  for (std::size_t count : {std::size_t{20}, std::size_t{100}}) {
    Vectors rows(ElementType::kFloat32, 64, kDim, 3), queries(ElementType::kFloat32, count, kDim, 4);
    for (std::size_t i = 0; i < kFar * kDim; ++i) rows.set(i, 10000);
    const GemmKernels& gemm = scan_kernels().gemm;
    const BoundedProduct product(gemm, gemm.panel_for(count), Distance::kL2, ElementType::kFloat32,
                                 kDim, rows.rows(), BoundedProduct::sample_of(queries.view));
    multiply_all(product, false, queries, rows, [&](const auto& query, const auto& bounds, std::size_t,
                                             std::size_t row) {
      if (row >= kFar) CHECK(bounds.high - bounds.low < 1e-3 * (bounds.high + query.square / 2));
    });
  }
}

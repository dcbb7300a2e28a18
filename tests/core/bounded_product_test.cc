// What the product of a batch can prove of distances, whatever else the table holds. That it proves nothing
// wrong is what the conformance tests of batches show.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "cpu/scan/bounded_product.h"
#include "cpu/scan/scan_kernels.h"

using namespace warplite;
using namespace warplite::cpu;

TEST_CASE("bounded product: a few rows that lie far away cost the others nothing") {
  constexpr std::size_t kRows = 64, kQueries = 20, kDim = 32, kFar = 6;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> unit(0, 1);
  std::vector<float> rows(kRows * kDim), queries(kQueries * kDim);
  for (float& value : rows) value = unit(random);
  for (float& value : queries) value = unit(random);
  for (std::size_t i = 0; i < kFar * kDim; ++i) rows[i] = 10000;

  const auto view = [](const std::vector<float>& values, std::size_t count) {
    return MatrixView{reinterpret_cast<const std::byte*>(values.data()), count, kDim,
                      ElementType::kFloat32};
  };
  BoundedProduct::Vectors sample;
  for (std::size_t i = 0; i < kRows; ++i) sample.push_back(view(rows, kRows).row(i));
  const BoundedProduct product(scan_kernels().gemm, Distance::kL2, ElementType::kFloat32, kDim, sample,
                               BoundedProduct::sample_of(view(queries, kQueries)), kQueries);
  BoundedProduct::Queries packed;
  product.pack_queries(view(queries, kQueries), &packed);
  BoundedProduct::Rows tile = product.make_rows(kRows);
  product.pack_rows(sample, &tile);
  std::vector<float> dots(product.dots_bytes() / sizeof(float));
  for (std::size_t panel = 0; panel < product.panels_of(kQueries); ++panel) {
    product.multiply(packed, panel, 1, tile, kRows, dots.data());
    const std::size_t width = product.panel_queries(), first = panel * width;
    for (std::size_t q = first; q < std::min(kQueries, first + width); ++q) {
      for (std::size_t row = kFar; row < kRows; ++row) {
        const BoundedProduct::Query& query = packed.bounds[q];
        const auto bounds =
            BoundedProduct::bounds(query, dots[(q - first) * product.block_rows() + row],
                                   tile.halves[row], tile.norms[row]);
        CHECK(bounds.high - bounds.low < 1e-3 * (bounds.high + query.square / 2));
      }
    }
  }
}

#include <cmath>
#include <limits>
#include <vector>

#include "compute/reference.h"
#include "core/elements.h"
#include "tests/reference/reference.h"

namespace warplite::compute {
namespace {

std::vector<float> model_row(const TallyWork& work, const std::byte* stored) {
  std::vector<float> row(work.dim);
  double square = 0;
  for (std::uint32_t d = 0; d < work.dim; ++d) {
    row[d] = element_at(work.type, stored, d);
    square += static_cast<double>(row[d]) * static_cast<double>(row[d]);
  }
  if (!work.normalised || square == 0) return row;
  const double norm = std::sqrt(square);
  for (float& element : row) element = static_cast<float>(static_cast<double>(element) / norm);
  return row;
}

}  // namespace

void reference_tally(const TallyWork& work, const float* centroids, ListTallies& out) {
  const std::size_t stride = bytes_per_vector(work.type, work.dim);
  for (const Block& block : work.blocks) {
    for (std::uint32_t i = 0; i < block.rows; ++i) {
      if (block.live != nullptr && (block.live[i / 64] >> (i % 64) & 1) == 0) continue;
      const std::vector<float> row = model_row(work, block.host + i * stride);
      std::size_t nearest = 0;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t list = 0; list < work.lists; ++list) {
        const double distance =
            canonical_distance(Distance::kL2, ElementType::kFloat32, work.dim,
                               reinterpret_cast<const std::byte*>(row.data()),
                               reinterpret_cast<const std::byte*>(centroids + list * work.dim));
        if (distance < least) {
          least = distance;
          nearest = list;
        }
      }
      ++out.counts[nearest];
      for (std::uint32_t d = 0; d < work.dim; ++d) {
        out.sums[nearest * work.dim + d] += static_cast<double>(row[d]);
      }
      out.squares[nearest] += least * least;
      if (least > out.farthest[nearest].distance) out.farthest[nearest] = {least, block.id, i};
    }
  }
}

}  // namespace warplite::compute

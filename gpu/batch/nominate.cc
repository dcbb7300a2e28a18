#include "gpu/batch/nominate.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "gpu/batch/nominate_kernels.h"

namespace warplite::gpu {
namespace {

// WARPLITE_GPU_PRODUCT=warps or small-warps: the product by single warps, and that in small tiles,
// on GPUs that have better, so that every way can be tested and measured.
enum class Product { kBest, kWarps, kSmallWarps };

Product wanted_product() {
  static const Product wanted = [] {
    const char* value = std::getenv("WARPLITE_GPU_PRODUCT");
    const std::string_view name = value == nullptr ? "" : value;
    if (name == "warps") return Product::kWarps;
    return name == "small-warps" ? Product::kSmallWarps : Product::kBest;
  }();
  return wanted;
}

bool multiplies_by_groups(int capability) {
  return wanted_product() == Product::kBest && groups_are_built() && capability == 90;
}

}  // namespace

bool can_nominate(int capability, std::size_t shared_memory, std::uint32_t dim) {
  return multiplies_by_groups(capability) ||
         (capability >= 80 && shared_memory >= warps_shared_memory(kSmallTile, dim));
}

TileShape tile_shape(int capability, std::size_t shared_memory, std::uint32_t dim,
                     std::uint32_t queries) {
  if (multiplies_by_groups(capability)) {
    return queries <= kFewQueries.queries ? kFewQueries : kManyQueries;
  }
  const bool small = queries <= kSmallTile.queries || wanted_product() == Product::kSmallWarps ||
                     shared_memory < warps_shared_memory(kManyQueries, dim);
  return small ? kSmallTile : kManyQueries;
}

unsigned choose_splits(unsigned query_tiles, unsigned tiles, unsigned multiprocessors) {
  constexpr unsigned kStart = 2;
  unsigned best = 1;
  std::uint64_t least = ~std::uint64_t{0};
  for (unsigned splits = 1; splits <= std::min(tiles, 512u); ++splits) {
    const std::uint64_t rounds =
        (std::uint64_t{query_tiles} * splits + multiprocessors - 1) / multiprocessors;
    const std::uint64_t cost = rounds * ((tiles + splits - 1) / splits + kStart);
    if (cost < least) {
      least = cost;
      best = splits;
    }
  }
  return best;
}

void launch_nominate(const Nominate& work, cudaStream_t stream) {
  if (multiplies_by_groups(work.capability)) {
    launch_groups(work, stream);
  } else {
    launch_warps(work, stream);
  }
}

}  // namespace warplite::gpu

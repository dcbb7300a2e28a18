#include "gpu/nominate.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "gpu/nominate_kernels.h"

namespace warplite::gpu {
namespace {

// WARPLITE_GPU_PRODUCT=warps: the product by single warps, which nothing else chooses before it has
// passed the conformance suite on the GPUs it is meant for.
bool warps_are_wanted() {
  static const bool wanted = [] {
    const char* value = std::getenv("WARPLITE_GPU_PRODUCT");
    return value != nullptr && std::string_view(value) == "warps";
  }();
  return wanted;
}

bool multiplies_by_groups(int capability) {
  return !warps_are_wanted() && groups_are_built() && capability == 90;
}

}  // namespace

bool can_nominate(int capability, std::size_t shared_memory, std::uint32_t dim) {
  if (multiplies_by_groups(capability)) return true;
  return warps_are_wanted() && capability >= 80 && shared_memory >= warps_shared_memory(dim);
}

TileShape tile_shape(int capability, std::uint32_t queries) {
  return multiplies_by_groups(capability) && queries <= kFewQueries.queries ? kFewQueries
                                                                            : kManyQueries;
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

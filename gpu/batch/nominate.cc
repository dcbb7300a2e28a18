#include "gpu/batch/nominate.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gpu/batch/nominate_kernels.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {
namespace {

// What WARPLITE_GPU_PRODUCT says when a GPU is first asked, so that one process can compare products by
// opening it twice. kNone: the best.
struct Wanted {
  ProductKind product = ProductKind::kNone;
  Wanted() {
    const char* value = std::getenv("WARPLITE_GPU_PRODUCT");
    const std::string_view name = value == nullptr ? "" : value;
    if (name == "warps") product = ProductKind::kWarps;
    if (name == "small-warps") product = ProductKind::kSmallWarps;
    if (name == "cublas") product = ProductKind::kBlas;
  }
};

ProductKind wanted_product(const Gpu& gpu) { return gpu.derived().of<Wanted>().product; }

}  // namespace

ProductKind product_for(const Gpu& gpu, std::uint32_t dim) {
  const ProductKind wanted = wanted_product(gpu);
  std::string why;
  if (wanted == ProductKind::kBlas) {
    if (blas_works(why)) return ProductKind::kBlas;
    throw Error(ErrorKind::kUnsupported, "WARPLITE_GPU_PRODUCT=cublas: " + why);
  }
  const int capability = gpu.capability();
  if (wanted == ProductKind::kNone && groups_are_built() && capability == 90) return ProductKind::kGroups;
  if (capability >= 80 && gpu.shared_memory() >= warps_shared_memory(kSmallTile, dim)) {
    return wanted == ProductKind::kSmallWarps ? ProductKind::kSmallWarps : ProductKind::kWarps;
  }
  return blas_works(why) ? ProductKind::kBlas : ProductKind::kNone;
}

// Bytes decide, where four queries share a pass over the rows. The product reads rows in half precision, writes
// them dense and reads them again, 6 bytes an element, and writes and reads 4 of each sum; so it is even with
// n / 4 passes of an element's bytes when n is 24 over these bytes, or a few more.
std::size_t least_queries(const Gpu& gpu, ElementType type, std::uint32_t dim) {
  if (wanted_product(gpu) == ProductKind::kBlas || product_for(gpu, dim) != ProductKind::kBlas) return 0;
  return std::size_t{32} * dim / bytes_per_vector(type, dim);
}

TileShape tile_shape(const Gpu& gpu, std::uint32_t dim, std::uint32_t queries) {
  const ProductKind product = product_for(gpu, dim);
  if (product == ProductKind::kGroups) return queries <= kFewQueries.queries ? kFewQueries : kManyQueries;
  const bool small = queries <= kSmallTile.queries || product != ProductKind::kWarps ||
                     gpu.shared_memory() < warps_shared_memory(kManyQueries, dim);
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
  switch (work.product) {
    case ProductKind::kGroups: return launch_groups(work, stream);
    case ProductKind::kBlas: return launch_blas(work, stream);
    default: return launch_warps(work, stream);
  }
}

}  // namespace warplite::gpu

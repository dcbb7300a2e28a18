// Hits that are within the thresholds in the end, sorted by query.
#include "gpu/edit/edit.h"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/hit_sort.h"

namespace warplite::gpu {
namespace {

struct Hit {
  std::uint32_t place, query, distance;

  __device__ Hit(const EditSearchView& search, std::uint64_t packed)
      : place(static_cast<std::uint32_t>(packed >> 32)) {
    const auto low = static_cast<std::uint32_t>(packed);
    query = search.distance_bits == 32 ? 0 : low >> 16;
    distance = search.distance_bits == 32 ? low : low & 0xffffu;
  }
};

// Calls visit(hit, lanes that take part) for all hits within the thresholds.
template <typename Visit>
__device__ void for_hits(const EditSearchView& search, const Visit& visit) {
  const std::uint64_t found = min(static_cast<std::uint64_t>(*search.found), search.room);
  const std::uint64_t step = std::uint64_t{gridDim.x} * kHitThreads;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * kHitThreads; first < found;
       first += step) {
    const std::uint64_t i = first + threadIdx.x;
    const Hit hit(search, i < found ? search.hits[i] : 0);
    const bool within = i < found && hit.distance <= search.thresholds[hit.query];
    const unsigned lanes = __ballot_sync(~0u, within);
    if (within) visit(hit, lanes);
  }
}

__global__ void __launch_bounds__(kHitThreads)
    count_kernel(const __grid_constant__ EditSearchView search, HitCounts hits) {
  for_hits(search, [&](const Hit& hit, unsigned lanes) {
    count_hit(hits.counts, hit.query, lanes);
  });
}

__global__ void __launch_bounds__(kHitThreads)
    place_kernel(const __grid_constant__ EditSearchView search, HitCounts hits,
                 std::uint64_t* sorted) {
  for_hits(search, [&](const Hit& hit, unsigned lanes) {
    const std::uint32_t at =
        hits.device_begins[hit.query] + count_hit(hits.counts, hit.query, lanes);
    sorted[at] = std::uint64_t{hit.place} << 32 | hit.distance;
  });
}

}  // namespace

void launch_edit_sort(const EditSearchView& search, const HitCounts& hits, std::uint64_t* sorted,
                      cudaStream_t stream) {
  const unsigned blocks = hit_blocks(search.room);
  count_kernel<<<blocks, kHitThreads, 0, stream>>>(search, hits);
  check_launch("counting hits");
  launch_hit_begins(hits, stream);
  place_kernel<<<blocks, kHitThreads, 0, stream>>>(search, hits, sorted);
  check_launch("sorting hits");
}

}  // namespace warplite::gpu

#include "index/lsh/panels.h"

#include <algorithm>

#include "compute/host/host_kernels.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kPanel = compute::HashPanel::kFunctions;

compute::HashRows kernel_of(LshFamily family) {
  const compute::HostKernels& kernels = compute::host_kernels();
  switch (family) {
    case LshFamily::kRbh: return kernels.hash_cells;
    case LshFamily::kSimhash: return kernels.hash_signs;
    default: return kernels.hash_sums;
  }
}

}  // namespace

std::vector<float> by_panels(const float* from, std::uint32_t functions, std::size_t each) {
  std::vector<float> out((functions + kPanel - 1) / kPanel * kPanel * each);
  for (std::size_t i = 0; i < functions; ++i) {
    for (std::size_t d = 0; d < each; ++d) {
      out[(i / kPanel * each + d) * kPanel + i % kPanel] = from[i * each + d];
    }
  }
  return out;
}

void hash_rows(const LshFunctions& functions, const double* rows, std::size_t count,
               std::uint32_t* out) {
  const compute::HashRows hash = kernel_of(functions.family);
  const std::size_t each = functions.family == LshFamily::kRbh ? functions.dim : 1;
  for (std::uint32_t first = 0; first < functions.m; first += kPanel) {
    const float* const offsets = functions.offsets;
    hash({functions.factors + std::size_t{first} * functions.dim,
          offsets == nullptr ? nullptr : offsets + first * each, first,
          std::min(kPanel, functions.m - first), functions.dim, functions.buckets, functions.m},
         rows, count, out + first);
  }
}

}  // namespace warplite::index

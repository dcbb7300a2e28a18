#include "cpu/ivf/pq_assign.h"

#include <algorithm>

#include "compute/device.h"
#include "cpu/ivf/pq_codebook.h"
#include "cpu/ivf/pq_kernels.h"
#include "cpu/runtime/item_loop.h"

namespace warplite::cpu {

void assign_codes(const compute::PqAssignWork& work) {
  if (work.count == 0 || work.m == 0) return;
  constexpr std::size_t kItemProducts = std::size_t{1} << 22;  // about a millisecond
  const PqCodebook codebook(work.codebooks, work.m, work.codewords, work.dim / work.m);
  const PqKernels& kernels = pq_kernels();
  const std::size_t rows =
      std::max<std::size_t>(kItemProducts / (std::size_t{work.dim} * work.codewords) / 4 * 4, 4);
  const std::size_t items = (work.count + rows - 1) / rows;
  const auto threads =
      static_cast<unsigned>(std::min<std::size_t>(items, compute::thread_count()));
  ItemLoop loop(work.cancellation);
  loop.run(threads, items, [&](unsigned, std::size_t item) {
    const std::size_t first = item * rows, n = std::min(rows, work.count - first);
    kernels.assign(codebook.view(), work.rows + first * work.dim, n, work.out + first * work.m);
  });
}

}  // namespace warplite::cpu

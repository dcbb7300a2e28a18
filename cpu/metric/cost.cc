#include "cpu/metric/cost.h"

#include "cpu/scan/nominator.h"
#include "cpu/scan/scan_kernels.h"
#include "cpu/scan/screen.h"

namespace warplite::cpu {

double plain_nanoseconds(const compute::Workload& work, std::size_t queries, std::size_t k,
                         std::size_t rows) {
  const double dim = work.queries.dim;
  compute::Workload batch = work;
  batch.queries.rows = queries;
  // A product reads and converts a row once for all queries.
  if (Nominator::suits(batch, k, rows)) {
    return 0.35 + 0.02 * dim + 40 / static_cast<double>(queries);
  }
  return Screen::suits(batch, scan_kernels()) ? 4 + 0.15 * dim : 8 + 0.35 * dim;
}

}  // namespace warplite::cpu

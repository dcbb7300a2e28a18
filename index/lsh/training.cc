#include "index/lsh/training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compute/host/parallel.h"

namespace warplite::index {
namespace {

constexpr double kWidthOfNearest = 1.6;
constexpr std::size_t kGrainRows = 16;

double distance_of(Distance distance, const float* x, const float* y, std::uint32_t dim) {
  const bool squared = distance != Distance::kL1;
  double sum = 0;
  for (std::uint32_t d = 0; d < dim; ++d) {
    const double difference = static_cast<double>(x[d]) - static_cast<double>(y[d]);
    sum += squared ? difference * difference : std::fabs(difference);
  }
  return squared ? std::sqrt(sum) : sum;
}

// Distances of a row to all others.
struct Distances {
  double sum = 0;
  double nearest = std::numeric_limits<double>::infinity();  // that is not 0
};

std::vector<Distances> compare_all(Distance distance, const SampleView& rows) {
  std::vector<Distances> all(rows.rows);
  compute::in_parallel(rows.rows, kGrainRows, rows.rows / kGrainRows,
                       [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      for (std::size_t j = 0; j < rows.rows; ++j) {
        const double apart = distance_of(distance, rows.row(i), rows.row(j), rows.dim);
        all[i].sum += apart;
        if (apart > 0) all[i].nearest = std::min(all[i].nearest, apart);
      }
    }
  });
  return all;
}

}  // namespace

double lsh_scale(const LshOptions& options, Distance distance, const SampleView& sample) {
  if (options.family == LshFamily::kSimhash) return 1;
  const bool binning = options.family == LshFamily::kRbh;
  const double given = binning ? options.sigma : options.width;
  if (given != 0) return given;
  if (sample.rows < 2) {
    throw Error(ErrorKind::kInvalid,
                std::string("index=lsh needs at least 2 rows to choose its ") +
                    (binning ? "sigma" : "width") + ", but there are " +
                    std::to_string(sample.rows));
  }
  double sum = 0, nearest = 0;
  std::size_t rows = 0;  // that are unlike another
  const SampleView used = sample.first(kLshSampleRows);
  for (const Distances& of_row : compare_all(distance, used)) {
    sum += of_row.sum;
    if (!std::isfinite(of_row.nearest)) continue;
    nearest += of_row.nearest;
    ++rows;
  }
  if (rows == 0) return 1;
  if (!binning) return kWidthOfNearest * nearest / static_cast<double>(rows);
  return sum / (static_cast<double>(used.rows) * static_cast<double>(used.rows - 1));
}

}  // namespace warplite::index

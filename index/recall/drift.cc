#include "index/recall/drift.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "index/clustering/nearest_list.h"
#include "index/recall/calibration.h"

namespace warplite::index {
namespace {

// Squares of distances to centroids, by those of the lists: what is drift on average, and what one row counts at
// most, so that a few rows far away are none. Of 12,000 rows that come to 60,000 like them the average is 0.99 to
// 1.04 (gaussian, decaying, heavy-tailed and clustered, 64 to 256 dimensions; SIFT); of other clusters among the
// old ones 9 to 14, of pictures beside texts 2.5 to 6, and where three in ten are pictures 2.
constexpr double kFarther = 1.2, kMost = 4;
constexpr double kLeast = 1e-30;

}  // namespace

bool drifted(const compute::Devices& devices, const InvertedModel& model, const MatrixView& rows,
             compute::Cancellation* cancellation) {
  const Calibration* const measured = model.calibration();
  if (measured == nullptr || !measured->spread.known() || rows.rows == 0) return false;
  std::vector<float> vectors(rows.rows * rows.dim);
  model.to_model_space(rows, vectors.data());
  std::vector<Nearest> nearest(rows.rows);
  NearestList(devices, model.centroids(), model.shape().lists, rows.dim)
      .find(vectors.data(), rows.rows, cancellation, nearest.data());
  double sum = 0;
  for (const Nearest& one : nearest) {
    const auto radius = static_cast<double>(measured->spread.radii[one.list]);
    sum += std::min(one.distance * one.distance / std::max(radius * radius, kLeast), kMost);
  }
  return sum > kFarther * static_cast<double>(rows.rows);
}

}  // namespace warplite::index

#include "engine/ivf/code_errors.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "compute/rabitq.h"
#include "index/clustering/matrix.h"
#include "index/recall/calibration.h"

namespace warplite::engine {
namespace {

// How likely what is distributed normally is so many standard errors more than its mean.
double tail(double errors) {
  constexpr double kNever = 6;  // one in a billion
  return errors > kNever ? 0 : 0.5 * std::erfc(errors / std::numbers::sqrt2);
}

// ‖y − C‖², which is what the centroid adds to scores but for products: there that is −y·C.
double square_away(const index::InvertedModel& model, const index::Spread::Viewpoint& from,
                   const compute::ProbedList& list) {
  const auto a = static_cast<double>(list.a);
  if (from.distance != Distance::kInnerProduct) return a;
  const std::uint32_t dim = model.shape().dim;
  const float* const centroid = model.centroids() + std::size_t{list.list} * dim;
  return from.norm * from.norm + index::square_norm(centroid, dim) + 2 * a;
}

double extent_of(const index::InvertedModel& model, const index::Spread::Viewpoint& from,
                 std::span<const compute::ProbedList> lists, double score) {
  // Where no list seems to hold any, all count.
  constexpr double kLeastPart = 1e-6;
  const index::Spread& spread = model.calibration()->spread;
  double rows = 0, squares = 0;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (!compute::IvfWork::counts_list(i) || lists[i].live == 0) continue;
    const std::size_t each = i < compute::IvfWork::kAllCounted ? 1 : compute::IvfWork::kOneIn;
    const double part = spread.part(from, score, lists[i].list, static_cast<double>(lists[i].a));
    const double live = static_cast<double>(each * lists[i].live) * std::max(part, kLeastPart);
    const auto radius = static_cast<double>(spread.radii[lists[i].list]);
    rows += live;
    squares += live * radius * radius * std::max(0.0, square_away(model, from, lists[i]));
  }
  if (rows == 0) return 0;
  const double products = from.distance == Distance::kInnerProduct ? 1 : 2;  // that a score has
  return products * std::sqrt(squares / rows / model.shape().dim);
}

}  // namespace

// What a code leaves out of a random vector is at a right angle to the code, and random: as long as
// the tangent of the angle between code and vector. That is √(π/2 − 1) of signs, and with each
// plane more about half, with what queries are rounded to.
CodeErrors::CodeErrors(std::uint32_t planes, double extent)
    : planes_(planes),
      of_signs_(extent * std::sqrt(std::numbers::pi / 2 - 1)),
      of_planes_(of_signs_ * std::pow(0.52, planes - 1.0)) {}

CodeErrors::CodeErrors(const index::InvertedModel& model, const index::Spread::Viewpoint& from,
                       std::span<const compute::ProbedList> lists, double score)
    : CodeErrors(model.shape().planes, extent_of(model, from, lists, score)) {}

// A score is what all planes tell, but no less than the signs' bound, which is beyond the truth for
// some rows, however many planes there are.
double CodeErrors::beyond(double margin) const {
  if (of_signs_ == 0) return 0;
  const double by_planes = tail(margin / of_planes_);
  if (planes_ == 1) return by_planes;
  const double by_signs = tail(compute::kErrors + margin / of_signs_);
  return by_planes + (1 - by_planes) * by_signs;
}

}  // namespace warplite::engine

#include "index/recall/spread.h"

#include <algorithm>
#include <cmath>

namespace warplite::index {
namespace {

constexpr double kStep = 2 * Spread::kMost / (Spread::kSteps - 1);

}  // namespace

// ‖y − x‖² = ‖y − C‖² + ‖x − C‖² − 2 (y − C)·(x − C), and of products −y·x = −y·C − y·(x − C).
double Spread::Viewpoint::reach(double score, double a, double radius) const {
  constexpr double kLeast = 1e-30;
  if (distance == Distance::kInnerProduct) return (score - a) / std::max(norm * radius, kLeast);
  const double away = std::sqrt(std::max(a, 0.0));
  return (score - a - radius * radius) / std::max(2 * away * radius, kLeast);
}

std::size_t Spread::step(double reach) {
  const double place = std::ceil((reach + kMost) / kStep);
  return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(kSteps - 1)));
}

double Spread::part_of_reach(double reach) const {
  const double place = std::clamp((reach + kMost) / kStep, 0.0, static_cast<double>(kSteps - 1));
  const auto below = std::min(static_cast<std::size_t>(place), kSteps - 2);
  const double low = static_cast<double>(parts[below]),
               high = static_cast<double>(parts[below + 1]);
  return low + (place - static_cast<double>(below)) * (high - low);
}

}  // namespace warplite::index

#pragma once

#include <algorithm>
#include <limits>

namespace warplite::index {

// The float32 nearest to a number, which may lie beyond float32's ends.
inline float nearest_finite(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMost, kMost));
}

}  // namespace warplite::index

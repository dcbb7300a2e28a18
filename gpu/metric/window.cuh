// Bounds of the triangle inequality, as MetricWindow (compute/metric.h) has them: in float64, then
// rounded outwards to what float32 distances are compared with.
#pragma once

#include "gpu/metric/metric.h"

namespace warplite::gpu {

template <Distance kDistance>
constexpr bool is_angle() {
  constexpr bool kAngle = info(kDistance).space == MetricSpace::kAngle;
  return kAngle;
}

template <Distance kDistance>
constexpr bool is_sum() {
  constexpr bool kL1 = info(kDistance).space == MetricSpace::kL1;
  return kL1;
}

// A FloatWindow holds those distances of rows to a point that rows within a radius may have.
struct FloatWindow {
  float low, high;
  __device__ bool contains(float e) const { return e >= low && e <= high; }
};

template <Distance kDistance>
struct Windows {
  double relative, absolute, radius;

  __device__ explicit Windows(const MetricSearchView& search)
      : relative(search.slack.relative), absolute(search.slack.absolute), radius(search.radius) {
    if (is_angle<kDistance>()) radius = fmin(radius, 2.0);
  }

  // `e`: the distance of a query to the point. Bounds work in both directions: also of the
  // distances of queries that a row at distance `e` may be near.
  __device__ FloatWindow of(float e) const {
    const double low = down(difference(down(e)));
    double farthest = up(e);
    if (is_angle<kDistance>()) farthest = fmin(farthest, 2.0);
    return {__double2float_rd(low), __double2float_ru(up(sum(farthest)))};
  }

 private:
  __device__ double up(double e) const { return e * (1 + 2 * relative) + 2 * absolute; }
  __device__ double down(double e) const {
    return fmax(0.0, e * (1 - 2 * relative) - 2 * absolute);
  }
  __device__ double sum(double e) const {
    if (!is_angle<kDistance>()) return e + radius;
    if (e * e + radius * radius >= 4) return 2;
    return e * sqrt(1 - radius * radius / 4) + radius * sqrt(1 - e * e / 4);
  }
  __device__ double difference(double e) const {
    if (e <= radius) return 0;
    if (!is_angle<kDistance>()) return e - radius;
    return e * sqrt(1 - radius * radius / 4) - radius * sqrt(fmax(0.0, 1 - e * e / 4));
  }
};

// Adds what one coordinate contributes to a distance.
template <Distance kDistance>
__device__ float add_difference(float sum, float a, float b) {
  const float t = a - b;
  return is_sum<kDistance>() ? sum + fabsf(t) : fmaf(t, t, sum);
}
template <Distance kDistance>
__device__ float distance_of_sum(float sum) {
  return is_sum<kDistance>() ? sum : __fsqrt_rn(sum);
}

}  // namespace warplite::gpu

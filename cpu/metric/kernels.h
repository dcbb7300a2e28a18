// The inner loops of metric indexes of vectors (compute/metric.h), a part of the table of kernels of
// each SIMD target.
// Threads: the functions keep no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplite::cpu {

// A BallTest finds the clusters that a ball around a query touches: those whose centre is at a
// distance e with
//   e · share ≤ cover · cosine + radius · cosines[i] + margin, or cover² + square ≥ whole
// (the chord of a sum of two angles; with cosines of 1, the sum itself).
struct BallTest {
  float share = 1, margin = 0;
  float radius = 0, cosine = 1;
  float square = 0, whole = 0;
};

struct MetricKernels {
  // Distances of a point to the rows of groups [groups][dim][16]: l2, l1.
  using Distances = void (*)(const float* point, const float* rows, std::size_t dim,
                             std::size_t groups, float* out);
  Distances distances[2] = {};

  // Writes the positions i < n, ascending, of clusters that the ball touches; returns their number.
  // REQUIRES: n % 16 == 0; `out` has room for n
  std::size_t (*touched)(const BallTest& ball, const float* distances, const float* cover,
                         const float* cosines, std::size_t n, std::uint32_t* out) = nullptr;

  // Writes first + i for those i < n with low ≤ values[i] ≤ high, ascending; returns their number.
  // REQUIRES: n % 16 == 0; `out` has room for n
  std::size_t (*between)(const float* values, float low, float high, std::size_t n,
                         std::uint32_t first, std::uint32_t* out) = nullptr;
};

// The table of the SIMD target in use. Valid for the life of the process.
const MetricKernels& metric_kernels();

}  // namespace warplite::cpu

// The RaBitQ code of a vector relative to its centroid, and back. compute/rabitq.h says what is
// computed. Needs no training: codes follow from the centroid and the vector alone.
// Threads: any. The same bytes with every compiler and SIMD target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/distance.h"

namespace warplite::index {

// What is kept of a row beside its planes.
struct RabitqFactors {
  float bias = 0, f = 0, g = 0;  // of the signs
  float fine = 0;                // F of all planes; 0 when there is only one
};

// How many times steps are tried: kTwice comes nearer, and is what codes of version 4 are made with
// (codes.h).
enum class RabitqTries { kOnce, kTwice };

// Codes `row` as one of the list of `centroid`, both in model space and rotated: [dim]. `planes`:
// [count][plane_bytes(dim)], the signs first.
RabitqFactors encode_rabitq(Distance distance, std::uint32_t dim, const float* centroid,
                            const float* row, std::uint32_t count, RabitqTries tries,
                            std::uint8_t* planes);

// The vector that the code stands for: [dim].
void decode_rabitq(Distance distance, std::uint32_t dim, const float* centroid,
                   const RabitqFactors& factors, std::uint32_t count, const std::uint8_t* planes,
                   float* out);

}  // namespace warplite::index

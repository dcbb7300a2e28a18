// Converts to and from the float32 vectors that a model compares with: compute/ivf.h, "Model
// space".
// Threads: any; large inputs are spread over the threads of searches.
#pragma once

#include "core/distance.h"
#include "core/types.h"

namespace warplite::index {

struct Rotation {
  // Learnt: [dim][dim], rows of it are multiplied by the elements of a vector and added up; or null.
  const float* matrix = nullptr;
  bool random = false;  // that of compute/host/rotation.h
};

// `out`: [vectors.rows][dim]; finite where the vectors are, whatever float32 can
// hold of their rotation.
void to_model_space(const MatrixView& vectors, Distance distance, const Rotation& rotation,
                    float* out);

// `rows` vectors in model space become elements of `type`, the nearest that there are. Unit
// vectors (distance=cosine) are scaled to fill the range of INT8.
void from_model_space(const float* rows, std::size_t count, std::uint32_t dim, ElementType type,
                      Distance distance, const Rotation& rotation, std::byte* out);

}  // namespace warplite::index

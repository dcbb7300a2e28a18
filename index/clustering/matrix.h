// Products of dense float32 matrices, row after row, for rotations and their training. Each
// element is summed in the order of `depth`, whatever the threads.
// Threads: any; large products are spread over the threads of searches.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace warplite::index {

// out[rows][columns] = a[rows][depth] · b[depth][columns]. `poll` is called every few
// milliseconds, on any thread; what it throws is thrown here.
void multiply(const float* a, std::size_t rows, std::size_t depth, const float* b,
              std::size_t columns, float* out, const std::function<void()>& poll = {});

double square_norm(const float* vector, std::size_t dim);

// [columns][rows]
std::vector<float> transpose(const float* a, std::size_t rows, std::size_t columns);

}  // namespace warplite::index

// cuBLAS, where its library is found: a reference beside which our own products are tested and measured, and
// the product of GPUs for which none of ours was made. Nothing links with it: it is opened when it is first
// wanted.
// Threads: a Blas belongs to a lane.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace warplite::gpu {

// Says whether the library is there and works on the thread's current GPU. False: `why` says what was
// looked for, or what failed. Opened and tried once.
bool blas_works(std::string& why);

// sums[query][row] = row · query, in float32, of binary16 elements. Vectors lie one after the other, each of
// `dim` elements, a multiple of 8; sums of a query are `rows` apart.
struct BlasProduct {
  const std::uint16_t* rows_at;
  const std::uint16_t* queries_at;
  float* sums;
  std::uint32_t rows, queries, dim;
};

class Blas {
 public:
  // REQUIRES: blas_works().
  explicit Blas(cudaStream_t stream);
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas();

  // Memory for what products keep between their kernels, on 256 bytes. Before the first product, so that
  // none allocates any.
  void set_workspace(std::byte* memory, std::size_t size);
  // Launches it.
  void multiply(const BlasProduct& product);

 private:
  void* handle_ = nullptr;
};

}  // namespace warplite::gpu

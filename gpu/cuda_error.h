// CUDA's result codes as warplite::Error: memory that ran out is kNoMemory, which callers
// answer with smaller work; everything else is kDevice, after which the device is given up.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/error.h"

namespace warplite::gpu {

inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // a code that is not sticky must not surface in a later call
  const bool memory = code == cudaErrorMemoryAllocation;
  throw Error(memory ? ErrorKind::kNoMemory : ErrorKind::kDevice,
              std::string(what) + ": " + cudaGetErrorString(code));
}

// After a kernel launch.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace warplite::gpu

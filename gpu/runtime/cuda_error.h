// CUDA's result codes as warplite::Error: memory that ran out is kNoMemory, which callers answer with
// smaller work; what leaves the GPU unusable to this process is kDevice, after which the device is
// given up; everything else concerns one call, and is kUnsupported.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/error.h"

namespace warplite::gpu {

// Says whether every later call of this process fails as well.
inline bool is_sticky(cudaError_t code) {
  switch (code) {
    case cudaErrorCudartUnloading:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown: return true;
    default: return false;
  }
}

inline ErrorKind kind_of(cudaError_t code) {
  if (code == cudaErrorMemoryAllocation) return ErrorKind::kNoMemory;
  return is_sticky(code) ? ErrorKind::kDevice : ErrorKind::kUnsupported;
}

inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // a code that is not sticky must not surface in a later call
  throw Error(kind_of(code), std::string(what) + ": " + cudaGetErrorString(code));
}

// Call this after a kernel launch.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace warplite::gpu

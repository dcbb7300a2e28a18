// The inner loops of the host's own work (compute/host/host_kernels.h) for every SIMD target.
// Threads: the functions keep no state.
#pragma once

#include "compute/host/host_kernels.h"
#include "cpu/runtime/targets.h"

namespace warplite::cpu {

// The table of the SIMD target in use. Valid for the life of the process.
const compute::HostKernels& host_kernels();

// By file.
TargetFills<compute::HostKernels> rotation_fills();

}  // namespace warplite::cpu

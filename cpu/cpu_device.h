// The Device that is always there: SIMD through Google Highway, threads through
// std::thread. Blocks live in host memory and are shared, never copied.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compute/device.h"

namespace warplite::cpu {

std::unique_ptr<compute::Device> make_cpu_device();

// SIMD targets this build and machine can run, best first ("AVX3", "AVX2", "SSE4",
// "SSE2", "NEON"). The environment variable WARPLITE_SIMD forces one by name.
std::vector<std::string> simd_targets();
// The one in use.
std::string simd_target();
// For tests: switches the target. Throws Error{kUnsupported} for an unknown name.
void force_simd_target(const std::string& name);

}  // namespace warplite::cpu

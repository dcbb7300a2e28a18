// The Device that is always there: SIMD through Google Highway, threads through
// std::thread. Blocks live in host memory and are shared, never copied.
#pragma once

#include <memory>

#include "compute/device.h"

namespace warplite::cpu {

std::unique_ptr<compute::Device> make_cpu_device();

}  // namespace warplite::cpu

// A CUDA GPU as a compute::Device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compute/device.h"

namespace warplite::gpu {

// The usable GPUs of this machine, named "gpu:0", "gpu:1", … Empty: `why` says why.
std::vector<std::unique_ptr<compute::Device>> make_cuda_devices(std::string& why);

}  // namespace warplite::gpu

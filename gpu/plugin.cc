// What warplite.so finds in warplite_cuda.so (compute/plugin.h).
#include "compute/plugin.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "gpu/cuda_device.h"

#define WARPLITE_EXPORT extern "C" __attribute__((visibility("default")))

WARPLITE_EXPORT const char* warplite_plugin_abi();
WARPLITE_EXPORT int warplite_plugin_open(void* host, warplite::compute::PluginAdd* add, char* why,
                                         std::size_t why_size);

const char* warplite_plugin_abi() {
  static const std::string abi = warplite::compute::plugin_abi(WARPLITE_VERSION);
  return abi.c_str();
}

int warplite_plugin_open(void* host, warplite::compute::PluginAdd* add, char* why,
                         std::size_t why_size) {
  std::string reason;
  try {
    auto devices = warplite::gpu::make_cuda_devices(reason);
    for (auto& device : devices) add(host, device.release());
    if (!devices.empty()) return 0;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  if (why_size != 0) {
    const std::size_t length = std::min(reason.size(), why_size - 1);
    std::memcpy(why, reason.data(), length);
    why[length] = '\0';
  }
  return 1;
}

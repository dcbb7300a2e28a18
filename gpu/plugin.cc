// Exports what warplite.so looks for in warplite_cuda.so (compute/devices/plugin.h).
#include "compute/devices/plugin.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

#include <dlfcn.h>

#include "gpu/cuda_device.h"

#define WARPLITE_EXPORT extern "C" __attribute__((visibility("default")))

WARPLITE_EXPORT const char* warplite_plugin_abi();
WARPLITE_EXPORT int warplite_plugin_open(void* host, warplite::compute::PluginAdd* add,
                                         warplite::compute::RunOnWorkers workers, char* why,
                                         std::size_t why_size);

namespace {

std::atomic<bool> opening{false};

// A process that ends first takes down what was registered last. What the libraries of CUDA have
// registered when they were loaded comes before this, so that it waits until they are used no more.
void await_opening() {
  using std::chrono::steady_clock;
  const steady_clock::time_point end = steady_clock::now() + std::chrono::seconds(30);
  while (opening && steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

class Opening {
 public:
  Opening() {
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    opening = true;
    static_cast<void>(std::atexit(await_opening));
  }
  ~Opening() { opening = false; }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
};

}  // namespace

const char* warplite_plugin_abi() {
  static const std::string abi = warplite::compute::plugin_abi(WARPLITE_VERSION);
  return abi.c_str();
}

int warplite_plugin_open(void* host, warplite::compute::PluginAdd* add,
                         warplite::compute::RunOnWorkers workers, char* why, std::size_t why_size) {
  std::string reason;
  try {
    const Opening started;
    warplite::compute::set_workers(workers);
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

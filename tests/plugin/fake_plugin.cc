// A plug-in that brings fake GPUs, to be opened as warplite_cuda.so is. The environment variable
// WARPLITE_FAKE_PLUGIN says what it is like: "stranger" (built for another warplite), "empty" (says
// why it has no device), "silent" (has none and does not say why), "workers" (says whether it was
// lent any), or a number of devices. It takes
// WARPLITE_FAKE_DELAY milliseconds to open.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "compute/devices/plugin.h"
#include "tests/support/fakes/fake_gpu.h"

#define WARPLITE_EXPORT extern "C" __attribute__((visibility("default")))

WARPLITE_EXPORT const char* warplite_plugin_abi();
WARPLITE_EXPORT int warplite_plugin_open(void* host, warplite::compute::PluginAdd* add,
                                         warplite::compute::RunOnWorkers workers, char* why,
                                         std::size_t why_size);

namespace {

std::string mode() {
  const char* value = std::getenv("WARPLITE_FAKE_PLUGIN");
  return value != nullptr ? value : "1";
}

}  // namespace

const char* warplite_plugin_abi() {
  static const std::string abi = warplite::compute::plugin_abi(WARPLITE_VERSION);
  return mode() == "stranger" ? "another release" : abi.c_str();
}

int warplite_plugin_open(void* host, warplite::compute::PluginAdd* add,
                         warplite::compute::RunOnWorkers workers, char* why, std::size_t why_size) {
  if (const char* delay = std::getenv("WARPLITE_FAKE_DELAY")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(delay)));
  }
  if (mode() == "silent") return 7;
  if (mode() == "empty") {
    std::strncpy(why, "the driver is asleep", why_size - 1);
    return 1;
  }
  if (mode() == "workers") {
    std::strncpy(why, workers != nullptr ? "it was lent workers" : "it was lent none", why_size - 1);
    return 1;
  }
  const int devices = std::stoi(mode());
  for (int i = 0; i < devices; ++i) {
    add(host, new warplite::testing::FakeGpu("gpu:" + std::to_string(i)));
  }
  return 0;
}

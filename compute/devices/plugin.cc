#include "compute/devices/plugin.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "core/system.h"

namespace warplite::compute {
namespace {

template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(os::symbol(library, name));
}

void collect(void* host, Device* device) {
  auto& devices = *static_cast<std::vector<Device*>*>(host);
  if (devices.size() < kMostPluginDevices) devices.push_back(device);
}

}  // namespace

std::string open_plugin(const std::string& path, std::string_view version,
                        const std::function<void(Device*)>& add) {
  // Its worker threads and the run-time library below it outlive every connection.
  std::string error;
  void* library = os::open_library(path, error);
  if (library == nullptr) return error;
  auto* abi = symbol<PluginAbi>(library, kPluginAbiSymbol);
  auto* open = symbol<PluginOpen>(library, kPluginOpenSymbol);
  if (abi == nullptr || open == nullptr) return path + " is not a plug-in of warplite";
  const std::string ours = plugin_abi(version);
  if (const char* theirs = abi(); theirs == nullptr || ours != theirs) {
    return path + " was built for another warplite: it is " +
           (theirs == nullptr ? "unnamed" : theirs) + ", expected " + ours;
  }
  // Collected here, so that nothing that `add` throws crosses the plug-in.
  std::vector<Device*> devices;
  devices.reserve(kMostPluginDevices);
  std::array<char, 512> why{};
  const int failed = open(&devices, collect, workers(), why.data(), why.size());
  why.back() = '\0';
  for (Device* device : devices) add(device);
  if (failed != 0 && why[0] != '\0') return why.data();
  if (failed != 0) return path + " failed with code " + std::to_string(failed);
  return devices.empty() ? path + " found no device" : "";
}

std::string plugin_path(const char* variable, const char* file) {
  if (const char* path = std::getenv(variable); path != nullptr && *path != '\0') return path;
  const std::string library = os::path_of(reinterpret_cast<const void*>(&open_plugin));
  const std::size_t slash = library.find_last_of("/\\");
  const std::string folder = slash != std::string::npos ? library.substr(0, slash) : ".";
  return folder + '/' + file;
}

}  // namespace warplite::compute

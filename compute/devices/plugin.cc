#include "compute/devices/plugin.h"

#include <array>
#include <cstdlib>
#include <vector>

#include <dlfcn.h>

namespace warplite::compute {
namespace {

std::string last_dl_error() {
  const char* error = dlerror();
  return error != nullptr ? error : "unknown error";
}

template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

void collect(void* host, Device* device) {
  auto& devices = *static_cast<std::vector<Device*>*>(host);
  if (devices.size() < kMostPluginDevices) devices.push_back(device);
}

}  // namespace

std::string open_plugin(const std::string& path, std::string_view version,
                        const std::function<void(Device*)>& add) {
  // Its worker threads and the run-time library below it outlive every connection.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return last_dl_error();
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
  const int failed = open(&devices, collect, why.data(), why.size());
  why.back() = '\0';
  for (Device* device : devices) add(device);
  if (failed != 0 && why[0] != '\0') return why.data();
  if (failed != 0) return path + " failed with code " + std::to_string(failed);
  return devices.empty() ? path + " found no device" : "";
}

std::string plugin_path(const char* variable, const char* file) {
  if (const char* path = std::getenv(variable); path != nullptr && *path != '\0') return path;
  Dl_info self;
  std::string folder = ".";
  if (dladdr(reinterpret_cast<void*>(&open_plugin), &self) != 0 && self.dli_fname != nullptr) {
    const std::string library = self.dli_fname;
    const std::size_t slash = library.rfind('/');
    if (slash != std::string::npos) folder = library.substr(0, slash);
  }
  return folder + '/' + file;
}

}  // namespace warplite::compute

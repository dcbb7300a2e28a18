// The border between warplite.so and a plug-in that brings devices, such as warplite_cuda.so.
// Both sides compile this page. A plug-in exports, with C linkage:
//
//   const char* warplite_plugin_abi();
//   int warplite_plugin_open(void* host, PluginAdd* add, RunOnWorkers workers, char* why,
//                            std::size_t why_size);
//
// warplite_plugin_abi() returns plugin_abi(WARPLITE_VERSION); the host calls nothing else when the
// text differs from its own. warplite_plugin_open() calls add(host, device) once for each usable
// device, best first, and returns 0; or it adds none, writes the reason (terminated, cut to
// why_size) and returns another value. What its devices do beside the search they do on the host's
// threads, by `workers` (compute/host/parallel.h; null: it has none). It is called once in a process, on
// a thread of its own that blocks signals.
// Ownership: a device that was added lives as long as the process; the host never deletes it,
// and a plug-in is never unloaded. Buffers are deleted by the host, but never in a child of fork().
// Errors: nothing thrown crosses the border in either direction.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "compute/device.h"
#include "compute/host/parallel.h"

namespace warplite::compute {

// Raised whenever what crosses the border changes in a way that sizes do not show: the virtual
// functions of Device, Buffer and Cancellation, their order and their meaning.
inline constexpr int kPluginInterface = 6;

// A plug-in's open() may add this many devices; more are ignored.
inline constexpr std::size_t kMostPluginDevices = 64;

using PluginAdd = void(void* host, Device* device);
using PluginAbi = const char*();
using PluginOpen = int(void* host, PluginAdd* add, RunOnWorkers workers, char* why,
                       std::size_t why_size);

inline constexpr const char* kPluginAbiSymbol = "warplite_plugin_abi";
inline constexpr const char* kPluginOpenSymbol = "warplite_plugin_open";

// Names everything that both sides must agree on: the release, the interface, the compiler, its
// library, and the layout of what crosses.
inline std::string plugin_abi(std::string_view version) {
  std::string abi(version);
  const auto add = [&abi](std::size_t number) { abi += '/' + std::to_string(number); };
  add(kPluginInterface);
#if defined(__clang__)
  abi += "/clang " __clang_version__;
#elif defined(__VERSION__)
  abi += "/gcc " __VERSION__;
#endif
#if defined(__GLIBCXX__)
  add(__GLIBCXX__);
  add(_GLIBCXX_USE_CXX11_ABI);
#elif defined(_LIBCPP_VERSION)
  add(_LIBCPP_VERSION);
#endif
  for (const std::size_t size :
       {sizeof(Workload), sizeof(Block), sizeof(HitTable), sizeof(IvfWork), sizeof(AssignWork),
        sizeof(TallyWork), sizeof(MatchWork), sizeof(CodeWork), sizeof(EditWork), sizeof(TopK),
        sizeof(Hit), sizeof(DeviceInfo), sizeof(HostBytes), sizeof(Status), sizeof(std::string)}) {
    add(size);
  }
  return abi;
}

// The host's side. Opens the plug-in at `path` and hands its devices to `add`. Returns "", or why
// there are none. Throws nothing but what `add` throws.
std::string open_plugin(const std::string& path, std::string_view version,
                        const std::function<void(Device*)>& add);

// Returns where a plug-in is looked for: the value of the environment variable `variable`, or
// `file` in the folder that holds the library of this code.
std::string plugin_path(const char* variable, const char* file);

}  // namespace warplite::compute

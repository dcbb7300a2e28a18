#include <atomic>
#include <thread>

#include "compute/device.h"

namespace warplite::compute {
namespace {

std::atomic<unsigned> configured_threads{0};

bool matches(const std::string& device, std::string_view wanted) {
  if (wanted.empty() || wanted == "auto") return true;
  return device == wanted || (device.starts_with(wanted) && device[wanted.size()] == ':');
}

}  // namespace

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

void Registry::add(std::unique_ptr<Device> device) { devices_.push_back(std::move(device)); }

std::vector<Device*> Registry::devices() const {
  std::vector<Device*> all;
  for (const auto& device : devices_) all.push_back(device.get());
  return all;
}

Device& Registry::choose(std::string_view name) const {
  std::string known;
  for (const auto& device : devices_) {
    const DeviceInfo info = device->describe();
    if (info.usable && matches(info.name, name)) return *device;
    known += (known.empty() ? "" : ", ") + info.name + " (" + info.state + ")";
  }
  throw Error(ErrorKind::kUnsupported, "no usable device \"" + std::string(name) +
                                           "\"; this process has: " +
                                           (known.empty() ? "none" : known));
}

void set_thread_count(unsigned threads) { configured_threads = threads; }

unsigned thread_count() {
  const unsigned threads = configured_threads;
  if (threads != 0) return threads;
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace warplite::compute

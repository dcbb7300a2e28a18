#include "engine/residency/device_choice.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>

namespace warplite::engine {
namespace {

using compute::Device;
using compute::Registry;

// Work for which a device is started that may take seconds to be there: far more than a search
// that the CPU answers in a millisecond.
constexpr double kWorthStarting = 4 << 20;
// Work that a CPU needs many seconds for, and how long it may wait for a device that starts.
constexpr double kWorthWaiting = 1e11;
constexpr std::chrono::seconds kPatienceOfWork{20};
constexpr std::chrono::hours kPatience{24};
// A setting is not interrupted by anybody.
constexpr std::chrono::minutes kPatienceOfSetting{1};

struct DefaultDevice {
  std::mutex mutex;
  std::string name;

  DefaultDevice() {
    const char* configured = std::getenv("WARPLITE_DEVICE");
    name = configured != nullptr && *configured != '\0' ? configured : "auto";
  }
};

DefaultDevice& default_device_setting() {
  static DefaultDevice setting;
  return setting;
}

DeviceChoice choose_automatically(const Demand& demand) {
  const Registry& registry = Registry::instance();
  if (demand.bytes_compared >= kWorthStarting) registry.begin_start();
  DeviceChoice choice;
  choice.ready_only = true;
  for (Device* device : registry.accelerators()) {
    if (demand.bytes_compared >= static_cast<double>(device->worthwhile_bytes()) &&
        demand.ability.held_by(*device)) {
      choice.devices.push_back(device);
    }
  }
  return choice;
}

void await_start(const std::string& name, compute::Cancellation* cancellation) {
  const Registry& registry = Registry::instance();
  if (registry.may_appear(name) && !registry.wait_for_start(kPatience, cancellation)) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

DeviceChoice choose_by_name(const Demand& demand, const std::string& name) {
  const Registry& registry = Registry::instance();
  await_start(name, demand.cancellation);
  DeviceChoice choice;
  choice.insisted = !demand.device.empty();
  if (choice.insisted || !registry.knows(name)) registry.choose(name);
  for (Device* device : registry.usable(name)) {
    if (demand.ability.held_by(*device)) choice.devices.push_back(device);
  }
  if (choice.devices.empty() && choice.insisted) {
    throw Error(ErrorKind::kUnsupported, name + " does not " + demand.ability.name);
  }
  return choice;
}

}  // namespace

Ability Ability::vectors(ElementType type, Distance distance) {
  return {[=](const Device& device) { return device.supports(type, distance); },
          "compute " + std::string(info(distance).name) + " distances of such vectors"};
}

Ability Ability::lists(ElementType type, Distance distance, const compute::IvfShape& shape) {
  return {[=](const Device& device) {
            return device.supports(type, distance) && device.supports_ivf(shape);
          },
          "search such an index; ask for \"exact\", or for another device"};
}

Ability Ability::postings() {
  return {[](const Device& device) { return device.supports_match(); }, "count matches"};
}

Ability Ability::codes() {
  return {[](const Device& device) { return device.supports_codes(); },
          "count matches of columns"};
}

Ability Ability::edits() {
  return {[](const Device& device) { return device.supports_edit(); }, "compute edit distances"};
}

Ability Ability::sparse() {
  return {[](const Device& device) { return device.supports_sparse(); },
          "search sparse vectors"};
}

DeviceChoice choose_devices(const Demand& demand) {
  const std::string name = demand.device.empty() ? default_device() : demand.device;
  return name.empty() || name == "auto" ? choose_automatically(demand)
                                        : choose_by_name(demand, name);
}

void check_device(const std::string& name, compute::Cancellation* cancellation) {
  await_start(name, cancellation);
  Registry::instance().choose(name);
}

bool excludes_host(const std::string& name, const Ability& ability,
                   compute::Cancellation* cancellation) {
  if (name.empty() || name == "auto") return false;
  const std::vector<Device*> able = choose_by_name({name, ability, 0, cancellation}, name).devices;
  return std::find(able.begin(), able.end(), &Registry::instance().host()) == able.end();
}

void await_for_long_work(const Demand& demand) {
  const Registry& registry = Registry::instance();
  if (demand.bytes_compared < kWorthWaiting || default_device() != "auto") return;
  registry.begin_start();
  registry.wait_for_start(kPatienceOfWork, demand.cancellation);
}

void set_default_device(const std::string& name) {
  const Registry& registry = Registry::instance();
  const bool later = registry.may_appear(name);
  const bool ended = !later || registry.wait_for_start(kPatienceOfSetting, nullptr);
  if (ended) registry.choose(name);
  DefaultDevice& setting = default_device_setting();
  const std::lock_guard lock(setting.mutex);
  setting.name = name.empty() ? "auto" : name;
}

std::string default_device() {
  DefaultDevice& setting = default_device_setting();
  const std::lock_guard lock(setting.mutex);
  return setting.name;
}

}  // namespace warplite::engine

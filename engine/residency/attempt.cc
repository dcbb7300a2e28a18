#include "engine/residency/attempt.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "engine/residency/residency.h"

namespace warplite::engine {
namespace {

compute::Device& host() { return compute::Registry::instance().host(); }

// Memory that a device lacks is not the host's: SQLite takes a transaction back for that.
Error failure(const compute::Device& device, const Status& status) {
  const ErrorKind kind =
      status.kind == ErrorKind::kNoMemory ? ErrorKind::kDevice : status.kind;
  return {kind, device.describe().name + ": " + status.message};
}

// Moves those that are like the first before the others, of which the first is returned.
std::vector<compute::Device*>::iterator part_alike(std::vector<compute::Device*>& devices) {
  if (devices.size() < 2) return devices.end();
  const std::string model = devices.front()->describe().description;
  return std::stable_partition(devices.begin(), devices.end(), [&](const compute::Device* device) {
    return device->describe().description == model;
  });
}

// Puts that one first whose turn it is, of those that are like the first.
void take_turns(std::vector<compute::Device*>& devices, std::size_t turn) {
  if (turn == 0 || devices.size() < 2) return;
  const auto others = part_alike(devices);
  const auto alike = static_cast<std::size_t>(others - devices.begin());
  std::rotate(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(turn % alike), others);
}

}  // namespace

bool is_devices_fault(ErrorKind kind) {
  return kind == ErrorKind::kDevice || kind == ErrorKind::kNoMemory ||
         kind == ErrorKind::kUnsupported;
}

Attempt::Attempt(const Demand& demand, Use use, const Ready& ready) {
  DeviceChoice choice = choose_devices(demand);
  named_ = !choice.ready_only;
  insisted_ = choice.insisted;
  if (use == Use::kAlike) choice.devices.erase(part_alike(choice.devices), choice.devices.end());
  const bool asks = choice.ready_only && ready != nullptr;
  if (use == Use::kFirst) {
    take_turns(choice.devices, demand.turn);
    for (compute::Device* device : choice.devices) {
      if (asks && !ready({&device, 1})) continue;
      devices_ = {device};
      break;
    }
  } else if (!choice.devices.empty() && (!asks || ready(choice.devices))) {
    devices_ = choice.devices;
  }
  if (devices_.empty()) devices_ = {&host()};
}

Status Attempt::run_with_room(const Work& work, compute::Device*& failed) {
  failed = devices_.front();
  Status status = work(devices_, failed);
  if (status.kind != ErrorKind::kNoMemory || !devices_.front()->own_memory()) return status;
  for (compute::Device* device : devices_) Residency::instance().release_oldest(*device);
  failed = devices_.front();
  return work(devices_, failed);
}

void Attempt::run(const Work& work) {
  for (;;) {
    compute::Device* failed = nullptr;
    const Status status = run_with_room(work, failed);
    if (status.ok()) return;
    if (!is_devices_fault(status.kind) || failed == &host()) status.raise();
    if (!failed->usable()) Residency::instance().release_idle(*failed);
    std::erase(devices_, failed);
    if (!devices_.empty()) continue;
    if (insisted_) throw failure(*failed, status);
    devices_ = {&host()};
  }
}

void Attempt::search(const std::function<Status(compute::Device&)>& work) {
  run([&](Devices devices, compute::Device*&) {
    Status status = work(*devices.front());
    if (status.ok()) devices.front()->count_search();
    return status;
  });
}

}  // namespace warplite::engine

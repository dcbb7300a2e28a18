#include "engine/fallback.h"

#include "engine/residency.h"

namespace warplite::engine {

bool is_devices_fault(ErrorKind kind) {
  return kind == ErrorKind::kDevice || kind == ErrorKind::kNoMemory ||
         kind == ErrorKind::kUnsupported;
}

void answer_on(compute::Device& device, bool insisted,
               const std::function<Status(compute::Device&)>& attempt) {
  compute::Device& host = compute::Registry::instance().host();
  compute::Device* answering = &device;
  Status status = attempt(device);
  if (!status.ok() && is_devices_fault(status.kind) && &device != &host) {
    Residency::instance().release_idle(device);
    if (insisted) throw Error(status.kind, device.describe().name + ": " + status.message);
    answering = &host;
    status = attempt(host);
  }
  status.raise();
  answering->count_search();
}

}  // namespace warplite::engine

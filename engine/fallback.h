// What happens when a device fails: another one may answer, unless the query insisted on it.
// Threads: any.
#pragma once

#include <functional>

#include "compute/device.h"
#include "core/error.h"

namespace warplite::engine {

// Whether an error is the device's own: the CPU may do what it could not.
bool is_devices_fault(ErrorKind kind);

// Has the device answer, and the CPU when that one fails, anew. `attempt` begins from nothing each
// time. Throws what the attempt says; Error that names the device when the query `insisted` on it.
void answer_on(compute::Device& device, bool insisted,
               const std::function<Status(compute::Device&)>& attempt);

}  // namespace warplite::engine

// Which devices one search may use: the one insisted on, or those worth it.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "compute/device.h"

namespace warplite::engine {

// What a search asks of a device.
struct Demand {
  std::string device;         // the query's own option; empty: the configured one
  ElementType type;
  Distance distance;
  double bytes_compared;      // of selected vectors, times queries
  compute::Cancellation* cancellation;
};

struct DeviceChoice {
  std::vector<compute::Device*> devices;  // empty: the CPU, because no other one is there
  bool insisted = false;  // by the query itself: no other device may answer
  bool ready_only = false;  // only where copies are at hand; else the CPU answers meanwhile
};

// Begins the start of devices that are not there yet when the work is worth it; waits for them
// when one of them was asked for. Throws Error{kUnsupported} that names the devices there are,
// and Error{kInterrupted}.
DeviceChoice choose_devices(const Demand& demand);

// Throws what choose_devices() throws for a device that is not there, even if nothing is to be
// searched. `name`: a query's own option. Waits for the start of the device.
void check_device(const std::string& name, compute::Cancellation* cancellation);

// The device for one long piece of work: the first of those, else the CPU.
compute::Device& choose_worker(const Demand& demand);

// warp_config('device', …): "auto", "cpu", "gpu", "gpu:1". Waits for the start of a device that
// is not there yet. Throws for what is unknown, and for what cannot be used.
void set_default_device(const std::string& name);
std::string default_device();

}  // namespace warplite::engine

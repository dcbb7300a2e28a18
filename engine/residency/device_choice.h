// Chooses the devices that one search may use: the one insisted on, or those worth it.
// Threads: any.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compute/device.h"

namespace warplite::engine {

// What a device must be able to do, and how a message says so: "gpu:0 does not " + name.
struct Ability {
  std::function<bool(const compute::Device&)> held_by;
  std::string name;

  static Ability vectors(ElementType type, Distance distance);
  static Ability lists(ElementType type, Distance distance, const compute::IvfShape& shape);
  static Ability postings();
  static Ability codes();
  static Ability edits();
  static Ability sparse();
};

// What a piece of work asks of a device.
struct Demand {
  std::string device;         // the query's own option; empty: the configured one
  Ability ability;
  double bytes_compared;      // of selected vectors, times queries
  compute::Cancellation* cancellation;
  // Of pieces of work that one device does each: which of them, so that all devices of the best
  // kind have some.
  std::size_t turn = 0;
};

struct DeviceChoice {
  std::vector<compute::Device*> devices;  // empty: the CPU, because no other one is there
  bool insisted = false;  // by the query itself: no other device may answer
  bool ready_only = false;  // only where copies are at hand; else the CPU answers meanwhile
};

// Begins the start of devices that are not there yet when the work is worth it; waits for them
// when one of them was asked for. Throws Error{kUnsupported} that names the devices there are, or
// what those insisted on cannot do, and Error{kInterrupted}.
DeviceChoice choose_devices(const Demand& demand);

// Whether a query insists on devices of which none is the CPU, so that the CPU may not do their
// work however little it is. `name`: the query's own option. Throws what choose_devices() throws.
bool excludes_host(const std::string& name, const Ability& ability,
                   compute::Cancellation* cancellation);

// Throws what choose_devices() throws for a device that is not there, even if nothing is to be
// searched. `name`: a query's own option. Waits for the start of the device.
void check_device(const std::string& name, compute::Cancellation* cancellation);

// Waits a while for devices that start, where the work would take the CPU many seconds.
void await_for_long_work(const Demand& demand);

// warp_config('device', …): "auto", "cpu", "gpu", "gpu:1". Waits for the start of a device that
// is not there yet. Throws for what is unknown, and for what cannot be used.
void set_default_device(const std::string& name);
std::string default_device();

}  // namespace warplite::engine

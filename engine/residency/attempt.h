// One piece of work for a device, from what it demands to what was done: devices are chosen, and
// when one fails it is asked again with more room, then the others are, then the CPU; or the search
// fails, when the query insisted on a device.
// Threads: any; an attempt belongs to one search.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compute/device.h"
#include "core/error.h"
#include "engine/residency/device_choice.h"

namespace warplite::engine {

// Says whether an error is a device's own: another one may do what it could not.
bool is_devices_fault(ErrorKind kind);

class Attempt {
 public:
  using Devices = std::span<compute::Device* const>;
  // Whether the devices hold, or may soon hold, what the work reads. Asked where the CPU may answer
  // meanwhile.
  using Ready = std::function<bool(Devices)>;
  // Of the devices that were chosen: the first that is ready; or all that are like the first, to
  // which equal parts of one thing are equal work.
  enum class Use { kAll, kAlike, kFirst };

  // Throws what choose_devices() throws. `ready`: null where nothing is to be held.
  Attempt(const Demand& demand, Use use, const Ready& ready);

  // Says whether devices were named, by the query or by the setting. Who names several wants all of
  // them to work, and waits until they hold what they search.
  bool named() const { return named_; }

  // Has them do it, until it is done; what fails once is left alone by the next run() too. `work`
  // begins from nothing each time, holds nothing of the device's after it failed, and tells which
  // device failed when there are several. Throws what it says; Error that names the device when the
  // query insisted.
  using Work = std::function<Status(Devices, compute::Device*& failed)>;
  void run(const Work& work);
  // The same for one device, whose search is counted.
  void search(const std::function<Status(compute::Device&)>& work);

 private:
  Status run_with_room(const Work& work, compute::Device*& failed);

  std::vector<compute::Device*> devices_;  // never empty
  bool named_, insisted_;
};

}  // namespace warplite::engine

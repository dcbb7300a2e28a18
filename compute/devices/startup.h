// Devices that take long to start and may not be there at all, such as those of a plug-in: found
// once, in the background, when somebody first wants them.
// Threads: every member may be called from any thread.
// Ownership: a Startup and what it found live as long as the process. A child that is forked once
// the start has begun has no devices: their drivers do not survive it.
// Errors: why there are no devices is kept as text.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "compute/device.h"

namespace warplite::compute {

class Startup {
 public:
  // Hands devices to `add`, best first. Returns "", or why there are none.
  using Open = std::function<std::string(const std::function<void(Device*)>& add)>;

  static Startup& create(Open open);
  Startup(const Startup&) = delete;
  Startup& operator=(const Startup&) = delete;

  // The first call starts a thread that opens the devices; returns at once.
  void begin();
  // Waits until the start has ended, well or not; returns false when `patience` ran out or
  // `cancellation` (may be null) was requested before.
  bool wait(std::chrono::milliseconds patience, Cancellation* cancellation);

  struct Found {
    Device* device;
    std::string name;  // as describe() has it
  };
  // Empty until the start has ended well.
  const std::vector<Found>& devices() const;
  // "not started", "starting", "ready", or why there are none.
  std::string state() const;

 private:
  enum class Stage { kIdle, kStarting, kEnded };

  explicit Startup(Open open);
  ~Startup() = default;
  void run();
  std::string find(std::vector<Found>& found) const;
  bool forked() const;

  const Open open_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::atomic<Stage> stage_{Stage::kIdle};
  unsigned forks_ = 0;         // when the start began
  std::string reason_;         // once ended
  std::vector<Found> found_;   // does not change once ended
};

}  // namespace warplite::compute

// Fake GPUs in place of those of a plug-in, for one test.
// Threads: made and destroyed while nobody searches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compute/devices/startup.h"
#include "tests/support/fakes/fake_gpu.h"

namespace warplite::testing {

// While it lives, the process has these devices in place of those of a plug-in, and the cache
// keeps nothing. The devices themselves stay in memory.
class FakeGpus {
 public:
  // `count` devices that start at once; `count` 0: none, for the reason given.
  explicit FakeGpus(std::size_t count, std::string reason = "");
  ~FakeGpus();
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

  FakeGpu& operator[](std::size_t i) { return *devices_[i]; }
  // How many queries each answers of those that `search` asks.
  std::vector<std::size_t> shares(const std::function<void()>& search);
  // Holds up the start.
  Gate start_passes;
  // Starts them and waits until they are there.
  void start();
  std::string state() const { return startup_->state(); }

 private:
  std::vector<FakeGpu*> devices_;
  std::string reason_;
  compute::Startup* startup_;
  compute::Startup* before_;
  std::string default_device_;
};

}  // namespace warplite::testing

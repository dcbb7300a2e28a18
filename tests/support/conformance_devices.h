// The devices that conformance tests compare with the references: the CPU with each SIMD target and
// several numbers of threads, and the GPUs of the plug-in, where there are any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "compute/device.h"
#include "cpu/cpu_device.h"
#include "cpu/runtime/targets.h"

namespace warplite::testing {

// A device as it is to be set up before a case runs on it.
struct Candidate {
  std::string name;
  std::shared_ptr<compute::Device> device;
  std::function<void()> prepare;
  int asks = 2;  // times that it may be expected to ask whether to go on, in a short search
};

const std::vector<Candidate>& conformance_devices();

// Calls body(candidate) with each that has what `supports`, a member function of devices, asks for.
template <class Supports, class Body>
void on_each_device(Supports supports, const Body& body, const std::string& description = "") {
  for (const Candidate& candidate : conformance_devices()) {
    INFO(candidate.name, ": ", description);
    candidate.prepare();
    if (std::invoke(supports, *candidate.device)) body(candidate);
  }
}

// Asks to end once it was asked often enough.
class CountingCancellation : public compute::Cancellation {
 public:
  explicit CountingCancellation(int allowed) : allowed_(allowed) {}
  bool requested() override { return ++asked_ > allowed_; }
  int asked() const { return asked_; }

 private:
  int allowed_;
  int asked_ = 0;
};

// Puts the process back as it was.
class Restore {
 public:
  ~Restore() {
    cpu::force_simd_target(target_);
    compute::set_thread_count(0);
  }

 private:
  std::string target_ = cpu::simd_target();
};

}  // namespace warplite::testing

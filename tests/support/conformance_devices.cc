#include "tests/support/conformance_devices.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <string_view>

#include "compute/devices/plugin.h"
#include "cpu/runtime/targets.h"
#include "cpu/runtime/thread_pool.h"

namespace warplite::testing {
namespace {

// Of the plug-in that was built with the tests; none where there is no GPU.
std::vector<compute::Device*> gpus() {
  std::vector<compute::Device*> found;
#ifdef WARPLITE_CUDA_PLUGIN
  compute::set_workers(cpu::run_on_pool);
  const std::string why =
      compute::open_plugin(WARPLITE_CUDA_PLUGIN, WARPLITE_VERSION,
                           [&](compute::Device* device) { found.push_back(device); });
  if (found.empty()) MESSAGE("skipped on the GPU: ", why);
#else
  MESSAGE("skipped on the GPU: warplite_cuda.so is not built here");
#endif
  return found;
}

std::vector<Candidate> find_devices() {
  std::vector<Candidate> all;
  const std::shared_ptr<compute::Device> cpu = cpu::make_cpu_device();
  const std::vector<compute::Device*> accelerators = gpus();
  // Those who test a GPU in several ways compare the CPU once.
  const char* const tested = std::getenv("WARPLITE_TESTED_DEVICES");
  const bool alone =
      !accelerators.empty() && tested != nullptr && std::string_view(tested) == "gpu";
  for (const std::string& target : alone ? std::vector<std::string>() : cpu::simd_targets()) {
    for (unsigned threads : {1u, 2u, 3u}) {
      all.push_back({"cpu " + target + " threads=" + std::to_string(threads), cpu, [=] {
                       cpu::force_simd_target(target);
                       compute::set_thread_count(threads);
                     }});
    }
  }
  for (compute::Device* gpu : accelerators) {
    all.push_back({gpu->describe().name,
                   std::shared_ptr<compute::Device>(gpu, [](compute::Device*) {}), [] {}, 0});
  }
  return all;
}

}  // namespace

const std::vector<Candidate>& conformance_devices() {
  static const std::vector<Candidate> all = find_devices();
  return all;
}

}  // namespace warplite::testing

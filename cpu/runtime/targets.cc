#include "cpu/runtime/targets.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "cpu/runtime/highway_config.h"
#include "cpu/runtime/instruction_sets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/runtime/targets.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Compiled for the targets that every file of kernels is compiled for.
HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {

void probe() {}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {
namespace {

#if defined(__x86_64__) || defined(__i386__)
constexpr const char* kFallbackName = "SSE2";
#elif defined(__aarch64__)
constexpr const char* kFallbackName = "NEON";
#else
constexpr const char* kFallbackName = "SCALAR";
#endif

bool machine_has_neon() {
#if defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

// Finds the targets that run here, best first.
class Targets {
 public:
  Targets() {
    add(Target::kAvx3Vbmi, "AVX3_VBMI", instruction_sets().vbmi);
    add(Target::kAvx3, "AVX3", instruction_sets().avx512);
    add(Target::kAvx2, "AVX2", instruction_sets().avx2);
    add(Target::kSse4, "SSE4", instruction_sets().sse4);
    add(Target::kNeon, "NEON", machine_has_neon());
    add(Target::kFallback, kFallbackName, find(kFallbackName) == nullptr);
  }

  struct Named {
    Target target;
    const char* name;
  };
  const std::vector<Named>& all() const { return all_; }
  const Named* find(std::string_view name) const {
    for (const Named& named : all_) {
      if (name == named.name) return &named;
    }
    return nullptr;
  }

 private:
  void add(Target target, const char* name, bool machine_has) {
    constexpr void (*kCompiled[kTargets])() = WARPLITE_EACH_TARGET(probe);
    if (machine_has && kCompiled[static_cast<std::size_t>(target)] != nullptr) {
      all_.push_back({target, name});
    }
  }

  std::vector<Named> all_;
};

const Targets& targets() {
  static const Targets all;
  return all;
}

// The best, or what WARPLITE_SIMD names if this machine has it.
const Targets::Named* initial_target() {
  const char* wanted = std::getenv("WARPLITE_SIMD");
  const Targets::Named* found = wanted != nullptr ? targets().find(wanted) : nullptr;
  return found != nullptr ? found : &targets().all().front();
}

std::atomic<const Targets::Named*>& active() {
  static std::atomic<const Targets::Named*> named{initial_target()};
  return named;
}

}  // namespace

Target active_target() { return active().load()->target; }

bool can_run(Target target) {
  return std::any_of(targets().all().begin(), targets().all().end(),
                     [&](const Targets::Named& named) { return named.target == target; });
}

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const Targets::Named& named : targets().all()) names.emplace_back(named.name);
  return names;
}

std::string simd_target() { return active().load()->name; }

void force_simd_target(const std::string& name) {
  const Targets::Named* found = targets().find(name);
  if (found == nullptr) {
    std::string known;
    for (const std::string& target : simd_targets()) known += " " + target;
    throw Error(ErrorKind::kUnsupported,
                "no SIMD target \"" + name + "\"; this build and machine have:" + known);
  }
  active() = found;
}

}  // namespace warplite::cpu
#endif

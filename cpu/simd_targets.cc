#include <atomic>
#include <cstdlib>
#include <string>

#include "core/error.h"
#include "cpu/cpu_device.h"
#include "cpu/kernels.h"

namespace warplite::cpu {
namespace {

#if defined(__x86_64__) || defined(__i386__)
constexpr const char* kFallbackName = "SSE2";
#elif defined(__aarch64__)
constexpr const char* kFallbackName = "NEON";
#else
constexpr const char* kFallbackName = "SCALAR";
#endif

// These also ask whether the operating system saves the registers.
bool machine_has_sse4() {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
#else
  return false;
#endif
}

// Every machine with AVX2 has F16C, which some compilers cannot be asked about.
bool machine_has_avx2() {
#if defined(__x86_64__) || defined(__i386__)
  return machine_has_sse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

bool machine_has_avx3() {
#if defined(__x86_64__) || defined(__i386__)
  return machine_has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

bool machine_has_neon() {
#if defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

// What runs here, best first.
struct Targets {
  Kernels tables[5];
  int count = 0;

  void add(const char* name, bool runs, FillKernels TargetExports::*target) {
    const FillKernels fills[] = {real_exports().*target, integer_exports().*target,
                                 screen_exports().*target, gemm_exports().*target,
                                 pq_exports().*target,     match_exports().*target,
                                 code_exports().*target,     sliced_exports().*target,
                                 edit_exports().*target,   metric_exports().*target};
    for (const FillKernels fill : fills) runs = runs && fill != nullptr;
    if (!runs) return;
    Kernels& kernels = tables[count++];
    kernels.name = name;
    for (const FillKernels fill : fills) fill(kernels);
  }
  Targets() {
    add("AVX3", machine_has_avx3(), &TargetExports::avx3);
    add("AVX2", machine_has_avx2(), &TargetExports::avx2);
    add("SSE4", machine_has_sse4(), &TargetExports::sse4);
    add("NEON", machine_has_neon(), &TargetExports::neon);
    add(kFallbackName, find(kFallbackName) == nullptr, &TargetExports::fallback);
  }
  const Kernels* find(std::string_view name) const {
    for (int i = 0; i < count; ++i) {
      if (name == tables[i].name) return &tables[i];
    }
    return nullptr;
  }
};

const Targets& targets() {
  static const Targets all;
  return all;
}

// The best, or what WARPLITE_SIMD names if this machine has it.
const Kernels* initial_target() {
  const char* wanted = std::getenv("WARPLITE_SIMD");
  const Kernels* found = wanted != nullptr ? targets().find(wanted) : nullptr;
  return found != nullptr ? found : &targets().tables[0];
}

std::atomic<const Kernels*>& active() {
  static std::atomic<const Kernels*> kernels{initial_target()};
  return kernels;
}

}  // namespace

const Kernels& active_kernels() { return *active().load(); }

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (int i = 0; i < targets().count; ++i) names.emplace_back(targets().tables[i].name);
  return names;
}

std::string simd_target() { return active_kernels().name; }

void force_simd_target(const std::string& name) {
  const Kernels* found = targets().find(name);
  if (found == nullptr) {
    std::string known;
    for (const std::string& target : simd_targets()) known += " " + target;
    throw Error(ErrorKind::kUnsupported,
                "no SIMD target \"" + name + "\"; this build and machine have:" + known);
  }
  active() = found;
}

}  // namespace warplite::cpu

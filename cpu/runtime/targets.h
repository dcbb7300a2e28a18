// The SIMD targets: which this build and this machine have, and which one is in use.
// Inner loops are called through tables of function pointers, a table for each target, filled by the
// files named …_kernels.cc, which are compiled once for every target. Each capability has a table of
// its own, KernelTables, and a function that gives the one in use.
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace warplite::cpu {

// Best first.
enum class Target : std::uint8_t { kAvx3Vbmi, kAvx3, kAvx2, kSse4, kNeon, kFallback };
inline constexpr std::size_t kTargets = 6;

// The one in use.
Target active_target();
// Says whether this build and machine can run it.
bool can_run(Target target);

// Returns the targets that this build and machine can run, best first ("AVX3_VBMI", "AVX3", "AVX2",
// "SSE4", "SSE2", "NEON"). The environment variable WARPLITE_SIMD forces one by name.
std::vector<std::string> simd_targets();
// The name of the one in use.
std::string simd_target();
// Switches the target, for tests. Throws Error{kUnsupported} for an unknown name.
void force_simd_target(const std::string& name);

// A file of kernels fills its table by these, one for each target; null when that target is not
// compiled, which every file of kernels is for the same targets.
template <class Table>
using TargetFills = std::array<void (*)(Table&), kTargets>;

// A capability's tables, constant once made. Those of targets that this machine cannot run stay
// empty: what fills them is compiled for the target too, and may hold its instructions.
template <class Table>
class KernelTables {
 public:
  KernelTables(std::initializer_list<TargetFills<Table>> files) {
    for (const TargetFills<Table>& fills : files) {
      for (std::size_t target = 0; target < kTargets; ++target) {
        if (can_run(static_cast<Target>(target))) fills[target](tables_[target]);
      }
    }
  }
  const Table& active() const { return tables_[static_cast<std::size_t>(active_target())]; }

 private:
  std::array<Table, kTargets> tables_;
};

}  // namespace warplite::cpu

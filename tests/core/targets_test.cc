#include "cpu/runtime/targets.h"

#include <doctest/doctest.h>

using namespace warplite::cpu;

namespace {

struct Table {
  bool filled = false;
};

void fill(Table& table) { table.filled = true; }

// Of NEON on a machine of x86, or of AVX on one of Arm: no machine runs all targets.
void fill_never(Table&) { FAIL("this machine cannot run what fills this table"); }

}  // namespace

TEST_CASE("kernels: tables of what the machine cannot run are left alone") {
  TargetFills<Table> fills{};
  bool any_foreign = false;
  for (std::size_t i = 0; i < kTargets; ++i) {
    const bool runs = can_run(static_cast<Target>(i));
    fills[i] = runs ? fill : fill_never;
    any_foreign |= !runs;
  }
  CHECK(any_foreign);
  CHECK(can_run(active_target()));
  const KernelTables<Table> tables{fills};
  for (const std::string& name : simd_targets()) {
    force_simd_target(name);
    CHECK(tables.active().filled);
  }
  force_simd_target(simd_targets().front());
}

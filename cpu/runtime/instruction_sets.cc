#include "cpu/runtime/instruction_sets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace warplite::cpu {
namespace {

#if defined(__x86_64__)

constexpr unsigned bit(int number) {
  return 1u << number;
}
constexpr bool all(unsigned have, unsigned wanted) {
  return (have & wanted) == wanted;
}

// Returns which registers the system saves.
unsigned saved_registers() {
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

InstructionSets of_machine() {
  constexpr unsigned kSse4 = bit(20) | bit(23);                     // SSE4.2, POPCNT
  constexpr unsigned kAvx = bit(12) | bit(27) | bit(28) | bit(29);  // FMA, XGETBV, AVX, F16C
  constexpr unsigned kAvx2 = bit(3) | bit(5) | bit(8);              // BMI, AVX2, BMI2
  constexpr unsigned kAvx512 =
      bit(16) | bit(17) | bit(28) | bit(30) | bit(31);  // F, DQ, CD, BW, VL
  constexpr unsigned kVbmi = bit(1) | bit(6) | bit(11);  // VBMI, VBMI2, VNNI
  constexpr unsigned kBf16 = bit(5);
  constexpr unsigned kYmm = bit(1) | bit(2);
  constexpr unsigned kZmm = bit(5) | bit(6) | bit(7);
  InstructionSets sets;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, kSse4)) return sets;
  sets.sse4 = true;
  if (!all(c, kAvx) || !all(saved_registers(), kYmm)) return sets;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !all(b, kAvx2)) return sets;
  sets.avx2 = true;
  sets.avx512 = all(b, kAvx512) && all(saved_registers(), kZmm);
  sets.vbmi = sets.avx512 && all(c, kVbmi);
  const bool has_more = a >= 1;
  sets.bf16 = sets.avx512 && has_more && __get_cpuid_count(7, 1, &a, &b, &c, &d) && all(a, kBf16);
  return sets;
}

#else

InstructionSets of_machine() {
  return {};
}

#endif

}  // namespace

const InstructionSets& instruction_sets() {
  static const InstructionSets sets = of_machine();
  return sets;
}

}  // namespace warplite::cpu

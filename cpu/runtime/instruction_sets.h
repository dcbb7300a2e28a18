// Which instructions may be used beyond those that every machine of this kind has. The processor
// is asked itself: what compilers offer for that depends on their run-time libraries, and there are
// some that deny everything.
// Threads: any.
#pragma once

namespace warplite::cpu {

// Groups that machines have together. The system saves their registers, too.
struct InstructionSets {
  bool sse4 = false;    // SSE4.2, POPCNT
  bool avx2 = false;    // and AVX2, FMA, F16C, BMI and BMI2
  bool avx512 = false;  // and AVX-512 F, BW, CD, DQ and VL
  bool vbmi = false;    // and AVX-512 VBMI, VBMI2 and VNNI
  bool bf16 = false;    // and AVX-512 BF16, which machines may have without VBMI
};

// Asked once.
const InstructionSets& instruction_sets();

}  // namespace warplite::cpu

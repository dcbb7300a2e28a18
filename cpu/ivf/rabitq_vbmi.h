// Sums of signs on machines with AVX-512 VBMI, which looks up bytes of four tables by one
// instruction. Highway's targets with it have further ones that not all of these machines have.
#pragma once

#include <cstdint>

#include "cpu/ivf/rabitq_kernels.h"

namespace warplite::cpu {

// RabitqKernels::sums. REQUIRES: instruction_sets().vbmi.
void rabitq_sums_vbmi(const RabitqScores& of, std::int32_t* out);

}  // namespace warplite::cpu

// RaBitQ codes on machines with AVX-512 VBMI, which looks up bytes of four tables by one
// instruction, VBMI2, which brings bytes together, and VNNI, which adds products of bytes by fours.
// Highway's targets with them have further ones that not all of these machines have.
#pragma once

#include <cstdint>

#include "cpu/ivf/rabitq_kernels.h"

namespace warplite::cpu {

// As RabitqKernels has them. REQUIRES: instruction_sets().vbmi.
void rabitq_look_vbmi(const RabitqGroups& of, RabitqLook* queries, std::size_t n);
void rabitq_dots_vbmi(const std::int8_t* elements, const std::uint8_t* const* planes, std::size_t n,
                      std::uint32_t count, std::uint32_t dim, std::int32_t* out);

}  // namespace warplite::cpu

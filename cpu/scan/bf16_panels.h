// The product by row of elements in bfloat16, on machines with AVX-512 BF16: two elements are
// multiplied in the time of one. What rounding them costs bounded_product.h knows. Highway has no
// target that these machines have in common.
#pragma once

#include "cpu/scan/scan_kernels.h"

namespace warplite::cpu {

// Where the machine has it, panels by row become those.
void use_bf16(GemmKernels& gemm);

}  // namespace warplite::cpu

#include "cpu/scan/scan_kernels.h"

namespace warplite::cpu {

const ScanKernels& scan_kernels() {
  static const KernelTables<ScanKernels> tables{real_fills(), integer_fills(), screen_fills(),
                                                gemm_fills(), pack_fills(), group_fills()};
  return tables.active();
}

}  // namespace warplite::cpu

// The queries of a workload in the form that the canonical loops read.
// Ownership: borrows the workload's query bytes, owns what it converts.
#pragma once

#include <vector>

#include "compute/ops.h"
#include "core/bytes.h"
#include "cpu/scan/scan_kernels.h"

namespace warplite::cpu {

class QuerySet {
 public:
  // Throws std::bad_alloc.
  QuerySet(const compute::Workload& work, const ScanKernels& kernels);

  std::size_t size() const { return prepared_.size(); }
  const PreparedQuery& operator[](std::size_t query) const { return prepared_[query]; }

 private:
  void convert_reals(const MatrixView& queries);
  void convert_shorts(const MatrixView& queries);

  Bytes reals_, shorts_;
  std::vector<PreparedQuery> prepared_;
};

}  // namespace warplite::cpu

// Thread blocks look at this before they begin, so that a search of many of them can be cancelled.
#pragma once

#include <cstdint>

#include "compute/ops.h"
#include "gpu/runtime/cuda_raii.h"

namespace warplite::gpu {

// Sets a flag in the device's memory once the search is asked to end. On a stream of its own, that
// what was launched does not hold up.
class Stop : public compute::Cancellation {
 public:
  // `flag`: device memory that holds a 0; `one`: pinned memory, which is set to 1.
  Stop(compute::Cancellation* asked, std::uint32_t* flag, std::uint32_t* one)
      : asked_(asked), flag_(flag), one_(one) {
    *one = 1;
  }

  bool requested() override {
    if (asked_ == nullptr || !asked_->requested()) return false;
    const Stream aside;
    check(cudaMemcpyAsync(flag_, one_, sizeof *one_, cudaMemcpyHostToDevice, aside), "stopping");
    check(cudaStreamSynchronize(aside), "stopping");
    return true;
  }

 private:
  compute::Cancellation* asked_;
  std::uint32_t* flag_;
  const std::uint32_t* one_;
};

}  // namespace warplite::gpu

// Which positions of a run of RaBitQ codes take part in a search. A run keeps the masks of the last filters.
// Threads: any; bits never change. Ownership: shared by searches that read them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "gpu/ivf/ivf.h"
#include "gpu/rows/row_table.h"
#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

class LiveMask {
 public:
  // Of the positions whose rows live by `table`; kept where the filter stands for something
  // (compute::IvfWork::filter). What is launched on the lane's stream from now on may read it.
  static std::shared_ptr<const LiveMask> of(const CudaBuffer& run, const IvfRunView& view,
                                            std::uint32_t positions, const RowTable& table,
                                            std::uint64_t filter, Lane& lane);

  LiveMask(std::uint64_t filter, std::uint32_t positions, std::atomic<std::size_t>& used,
           const Lane& lane);
  ~LiveMask() { used_ -= memory_.size(); }
  LiveMask(const LiveMask&) = delete;

  // As IvfRunView::live.
  const std::uint32_t* bits() const { return memory_.as<std::uint32_t>(); }

  const std::uint64_t key;  // the filter

 private:
  std::atomic<std::size_t>& used_;
  DeviceBytes memory_;
};

}  // namespace warplite::gpu

#include "gpu/ivf/live_mask.h"

#include "core/process/last_few.h"
#include "gpu/ivf/rabitq.h"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {

LiveMask::LiveMask(std::uint64_t filter, std::uint32_t positions, std::atomic<std::size_t>& used,
                   const Lane& lane)
    : key(filter),
      used_(used),
      memory_(positions / compute::kFastScanRows * sizeof(std::uint32_t), lane.pool(),
              lane.stream()) {
  used_ += memory_.size();
}

std::shared_ptr<const LiveMask> LiveMask::of(const CudaBuffer& run, const IvfRunView& view,
                                             std::uint32_t positions, const RowTable& table,
                                             std::uint64_t filter, Lane& lane) {
  auto& kept = run.derived().of<LastFew<LiveMask>>();
  std::shared_ptr<const LiveMask> known = filter == 0 ? nullptr : kept.find(filter);
  if (known != nullptr) return known;
  auto made = std::make_shared<const LiveMask>(filter, positions, run.used(), lane);
  launch_live_mask(view, positions, table, made->memory_.as<std::uint32_t>(), lane.stream());
  if (filter == 0) return made;
  // Searches on other streams are to find it there.
  check(cudaStreamSynchronize(lane.stream()), "finding the rows that take part");
  return kept.add(std::move(made));
}

}  // namespace warplite::gpu

#include "gpu/match/rowids.h"

#include <algorithm>
#include <utility>

namespace warplite::gpu {

MatchRowids::Extent MatchRowids::extent(const RowId* list, std::uint32_t rows) {
  const std::lock_guard lock(mutex_);
  if (!extent_) {
    Extent found{list[0], list[0], true};
    for (std::uint32_t row = 1; row < rows; ++row) {
      found.ascending &= list[row - 1] < list[row];
      found.least = std::min(found.least, list[row]);
      found.greatest = std::max(found.greatest, list[row]);
    }
    extent_ = found;
  }
  return *extent_;
}

const RowId* MatchRowids::resident(const RowId* list, std::uint32_t rows, Lane& lane) {
  const std::lock_guard lock(mutex_);
  if (copy_.size() == 0) {
    DeviceBytes made(rows * sizeof(RowId), lane.pool(), lane.stream());
    check(cudaMemcpyAsync(made.data(), list, made.size(), cudaMemcpyHostToDevice, lane.stream()),
          "sending rowids");
    // The copy is waited for because other streams will use it, too.
    check(cudaStreamSynchronize(lane.stream()), "sending rowids");
    copy_ = std::move(made);
    used_ += copy_.size();
  }
  return copy_.as<const RowId>();
}

}  // namespace warplite::gpu

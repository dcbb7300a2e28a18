// Metric indexes (compute/metric.h) on a GPU: what a builder made of a block's rows or of a tile's
// texts, kept with the buffer.
// Threads: any; an index is made by one thread, while others do without.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "compute/edit_metric.h"
#include "compute/policy/metric_ledger.h"
#include "gpu/metric/metric.h"
#include "gpu/metric/texts.h"
#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

// Arrays, copied one after the other into one allocation.
class MetricUpload {
 public:
  // `elements`: stays where it is until send(); `*out` is set there.
  template <typename T>
  void add(const T* elements, std::size_t count, const T** out) {
    const Slot<T> slot(plan_, count);
    parts_.push_back({elements, slot.bytes(), slot.at(),
                      [=](const Arena& arena) { *out = arena[slot]; }});
  }
  // Throws Error{kNoMemory}. The memory is usable by all streams.
  DeviceBytes send(Lane& lane) const;

 private:
  struct Part {
    const void* from;
    std::size_t size, at;
    std::function<void(const Arena&)> point;
  };
  Plan plan_;
  std::vector<Part> parts_;
};

class MetricIndexes {
 public:
  // `used` counts the device's bytes.
  explicit MetricIndexes(std::atomic<std::size_t>& used) : used_(used) {}
  ~MetricIndexes() { used_ -= memory_.size(); }

  // Says whether the caller is to make the index; then it calls finish, or give_up.
  bool claim(const compute::MissingMetric& missing, bool at_once);
  void give_up();
  void finish(const compute::VectorMetric& metric, std::uint32_t dim, Lane& lane);
  void finish(const compute::TextMetric& metric, Lane& lane);

  // Null: there is none. Holds as long as the buffer does.
  const MetricBlockView* vectors() const;
  const MetricTextsView* texts() const;

 private:
  void keep(DeviceBytes memory, const MetricBlockView& vectors, const MetricTextsView& texts);

  std::atomic<std::size_t>& used_;
  mutable std::mutex mutex_;
  compute::MetricLedger ledger_;
  bool making_ = false, made_ = false;
  DeviceBytes memory_;
  MetricBlockView vectors_{};  // one of both
  MetricTextsView texts_{};
};

// Returns what is kept with the buffer of vectors, or of a tile of texts.
inline MetricIndexes& metric_indexes(const compute::Buffer* rows) {
  const CudaBuffer& buffer = CudaBuffer::of(rows);
  return buffer.derived().of<MetricIndexes>(buffer.used());
}

}  // namespace warplite::gpu

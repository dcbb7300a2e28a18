#include "gpu/cuda_device.h"

#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "compute/devices/gatherer.h"
#include "compute/devices/guarded.h"
#include "gpu/batch/batch_search.h"
#include "gpu/batch/threshold_search.h"
#include "gpu/edit_search.h"
#include "gpu/ivf/assign.h"
#include "gpu/ivf/pq_assign.h"
#include "gpu/ivf/rabitq_search.h"
#include "gpu/ivf/search.h"
#include "gpu/ivf/tally_pass.h"
#include "gpu/match/codes_search.h"
#include "gpu/match/search.h"
#include "gpu/metric/host.h"
#include "gpu/metric/search.h"
#include "gpu/metric/tiles.h"
#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/lane.h"
#include "gpu/scan/scan.h"
#include "gpu/scan/scan_search.h"
#include "gpu/sparse/search.h"

namespace warplite::gpu {
namespace {

constexpr int kLeastCapability = 75;
// One pass over 8 MB costs the CPU about what a launch and its way back cost here.
constexpr std::size_t kWorthwhile = std::size_t{8} << 20;

class CudaDevice : public compute::Device {
 public:
  CudaDevice(int ordinal, std::string name) : gpu_(ordinal), name_(std::move(name)) {}

  compute::DeviceInfo describe() const override {
    const std::string capability =
        std::to_string(gpu_.capability() / 10) + "." + std::to_string(gpu_.capability() % 10);
    return {name_,
            gpu_.model() + ", compute capability " + capability,
            lost_ ? lost_reason() : "ready",
            !lost_,
            gpu_.memory_total(),
            used_};
  }
  bool usable() const override { return !lost_; }
  bool own_memory() const override { return true; }
  bool supports(ElementType type, Distance distance) const override {
    return applies(distance, type);
  }
  std::size_t worthwhile_bytes() const override { return kWorthwhile; }

  Status make_resident(compute::HostBytes bytes,
                       std::shared_ptr<const compute::Buffer>* out) override {
    return guarded([&] {
      *out = std::make_shared<const CudaBuffer>(gpu_, upload_, bytes, used_);
    });
  }

  Status map_host(compute::HostBytes bytes, std::size_t held,
                  std::shared_ptr<const compute::Buffer>* out) override {
    if (reinterpret_cast<std::uintptr_t>(bytes.data + held) % 16 != 0) {
      return {ErrorKind::kLimit, name_ + " reads host memory in place on 16 bytes only"};
    }
    return guarded([&] {
      *out = std::make_shared<const CudaBuffer>(gpu_, upload_, std::move(bytes), held, used_);
    });
  }

  Status nearest(const compute::Workload& work, compute::HitTable& best) override {
    if (best.k() == 0) return {};
    if (work.counters != nullptr) MetricSearch::count_all(work, *work.counters);
    return gatherer_.nearest(work, best,
                             [this](const compute::Workload& all, compute::HitTable& hits) {
                               return search(all, hits);
                             });
  }

  bool supports_ivf(const compute::IvfShape& shape) const override {
    return shape.planes != 0 ? RabitqSearch::supports(gpu_, shape)
                             : IvfSearch::supports(gpu_, shape);
  }

  bool rotates_queries(const compute::IvfShape& shape, std::size_t queries) const override {
    constexpr std::size_t kLeastRotated = 64;  // fewer take the host less than a launch
    return shape.planes != 0 && queries >= kLeastRotated && rabitq_rotates(shape.dim);
  }

  bool counts_lists(const compute::IvfShape& shape) const override { return shape.planes != 0; }

  Status ivf_nearest(const compute::IvfWork& work, compute::HitTable& best) override {
    if (best.k() == 0) return {};
    return guarded([&] {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      if (work.model.shape.planes != 0) return RabitqSearch(gpu_, *lane, work).nearest(best);
      IvfSearch(gpu_, *lane, work).nearest(best);
    });
  }

  Status assign(const compute::AssignWork& work) override {
    bool done = false;
    const Status status = guarded([&] {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      done = assign_lists(gpu_, *lane, work);
    });
    return status.ok() && !done ? Device::assign(work) : status;
  }

  Status tally(const compute::TallyWork& work, compute::ListTallies& out) override {
    return guarded([&] {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      TallyPass(gpu_, *lane, work).run(out);
    });
  }

  Status pq_assign(const compute::PqAssignWork& work) override {
    const std::size_t shared =
        (std::size_t{work.dim} / work.m + 1) * work.codewords * sizeof(float);
    if (shared > gpu_.shared_memory()) return Device::pq_assign(work);
    return guarded([&] {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      assign_codes(*lane, work);
    });
  }

  bool supports_match() const override { return true; }

  Status match(const compute::MatchWork& work, compute::HitTable& best) override {
    if (best.k() == 0 || work.queries() == 0) return {};
    return guarded([&] {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      MatchSearch(gpu_, *lane, work).best_rows(best);
    });
  }

  bool supports_codes() const override { return true; }

  Status match_codes(const compute::CodeWork& work, compute::HitTable& best) override {
    if (best.k() == 0 || work.queries() == 0) return {};
    return guarded([&] {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      ColumnCodeSearch(gpu_, *lane, work).best_rows(best);
    });
  }

  bool supports_edit() const override { return true; }

  Status edit_nearest(const compute::EditWork& work, compute::HitTable& best) override {
    if (best.k() == 0 || work.queries() == 0) return {};
    return guarded([&] {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      EditSearch(gpu_, *lane, work).nearest(best);
    });
  }

  Status edit_within(const compute::EditWork& work, compute::HitLists& out) override {
    if (work.queries() == 0) return {};
    return guarded([&] {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      if (!metric_suits(work)) return EditSearch(gpu_, *lane, work).within(out);
      const MetricTiles tiles = metric_tiles(*this, *lane, work);
      compute::EditWork some = work;
      some.tiles = tiles.indexed;
      EditSearch(gpu_, *lane, some, true).within(out);
      some.tiles = tiles.plain;
      EditSearch(gpu_, *lane, some).within(out);
    });
  }

  bool supports_sparse() const override { return true; }

  Status sparse_nearest(const compute::SparseWork& work, compute::HitTable& best) override {
    if (best.k() == 0) return {};
    return search_sparse(work, best);
  }

  Status sparse_within(const compute::SparseWork& work, compute::HitLists& out) override {
    return search_sparse(work, out);
  }

  void text_distances(std::span<const std::uint32_t> text, const compute::MetricTexts& texts,
                      std::uint32_t width, std::uint16_t* out) override {
    if (text_distances_on_host(text, texts, width, out)) return;
    Device::text_distances(text, texts, width, out);
  }

  Status within(const compute::Workload& work, compute::HitLists& out) override {
    return guarded([&] {
      compute::SearchCounters counters;
      if (MetricSearch::suits(work)) {
        within_by_metric(work, counters, out);
      } else {
        within_by_scan(work, counters, out);
      }
      if (work.counters == nullptr) return;
      work.counters->distances += counters.distances;
      work.counters->clusters += counters.clusters;
      work.counters->indexed += counters.indexed;
    });
  }

 private:
  template <typename Results>
  Status search_sparse(const compute::SparseWork& work, Results& found) {
    if (work.queries.empty() || work.tiles.empty()) return {};
    return guarded([&] {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      compute::SparseResults results(work, found);
      SparseSearch(*lane, work, results).run();
    });
  }

  Status search(const compute::Workload& work, compute::HitTable& best) {
    return guarded([&] {
      for_each_set(work, [&](Lane& lane, const RowSet& rows, const RowTable& table) {
        std::optional<std::vector<std::uint32_t>> left;
        if (ThresholdSearch::suits(gpu_, work, best.k(), rows)) {
          left = ThresholdSearch(gpu_, lane, work, rows, table, best.k()).nearest(best);
        } else if (BatchSearch::suits(gpu_, work, best.k(), rows.rows())) {
          left = BatchSearch(gpu_, lane, work, rows, table).nearest(best);
          if (!left && copies_pay(work, rows)) return search_passing(lane, work, rows, best);
        }
        ScanSearch(lane, work, rows, table).nearest(left ? *left : all_queries(work), best);
      });
    });
  }

  static std::vector<std::uint32_t> all_queries(const compute::Workload& work) {
    std::vector<std::uint32_t> all(work.queries.rows);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }

  // Says whether to copy all rows for one search takes less than to scan those that live again and again.
  static bool copies_pay(const compute::Workload& work, const RowSet& rows) {
    return rows.live_rows() * (work.queries.rows / kScanQueries) > rows.rows();
  }

  // Each row goes over the bus once, if it is not here, in place of once for a few queries.
  void search_passing(Lane& lane, const compute::Workload& work, const RowSet& all,
                      compute::HitTable& best) {
    std::vector<compute::Block> blocks;
    for (const compute::Block* block : all.blocks()) blocks.push_back(*block);
    compute::Workload some = work;
    some.blocks = blocks;
    for (std::size_t next = 0; next < blocks.size();) {
      RowSet rows(some, next, BatchSearch::passing_rows(work.queries.dim));
      const RowTable table = rows.upload(lane);
      const auto left = BatchSearch(gpu_, lane, some, rows, table, BatchSearch::Copies::kPassing)
                            .nearest(best);
      ScanSearch(lane, some, rows, table).nearest(left ? *left : all_queries(work), best);
    }
  }

  void within_by_scan(const compute::Workload& work, compute::SearchCounters& counters,
                      compute::HitLists& out) {
    const std::vector<std::uint32_t> all = all_queries(work);
    for_each_set(work, [&](Lane& lane, const RowSet& rows, const RowTable& table) {
      ScanSearch(lane, work, rows, table).within(all, out);
    });
    MetricSearch::count_all(work, counters);
  }

  void within_by_metric(compute::Workload work, compute::SearchCounters& counters,
                        compute::HitLists& out) {
    MetricBlocks blocks;
    {
      const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
      blocks = MetricSearch::blocks(*this, *lane, work);
    }
    work.blocks = blocks.indexed;
    for_each_set(work, [&](Lane& lane, const RowSet& rows, const RowTable& table) {
      const auto left = MetricSearch(lane, work, rows, table, counters).within(out);
      ScanSearch(lane, work, rows, table).within(left, out);
      counters.distances += std::uint64_t{rows.live_rows()} * left.size();
    });
    work.blocks = blocks.plain;
    within_by_scan(work, counters, out);
  }

  // The blocks of the work, as many at a time as one set of rows holds.
  template <typename Search>
  void for_each_set(const compute::Workload& work, const Search& search) {
    const Gpu::Borrowed lane = gpu_.lane(work.cancellation);
    for (std::size_t next = 0; next < work.blocks.size();) {
      RowSet rows(work, next);
      if (rows.rows() == 0) continue;
      const RowTable table =
          work.filter == 0 ? rows.upload(*lane) : rows.upload_once(gpu_, *lane, work.filter);
      search(*lane, rows, table);
    }
  }

  // Runs `body` on this GPU. After some errors CUDA is unusable: the device is given up.
  template <typename Body>
  Status guarded(const Body& body) noexcept {
    return compute::guarded([&]() -> Status {
      if (lost_) return {ErrorKind::kDevice, name_ + ": " + lost_reason()};
      Status status = compute::guarded([&] {
        const CurrentDevice current(gpu_.ordinal());
        body();
      });
      if (status.kind == ErrorKind::kDevice) lose(status.message);
      if (!status.ok() && status.kind != ErrorKind::kInterrupted) {
        status.message = name_ + ": " + status.message;
      }
      return status;
    });
  }

  void lose(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    reason_ = reason;
    lost_ = true;
  }
  std::string lost_reason() const {
    const std::lock_guard lock(mutex_);
    return "lost: " + reason_;
  }

  std::atomic<std::size_t> used_{0};
  Gpu gpu_;
  const std::string name_;
  Upload upload_;
  compute::Gatherer gatherer_;
  std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace

std::vector<std::unique_ptr<compute::Device>> make_cuda_devices(std::string& why) {
  std::vector<std::unique_ptr<compute::Device>> devices;
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess) {
    why = std::string("CUDA: ") + cudaGetErrorString(code);
    return devices;
  }
  if (count == 0) why = "CUDA: there is no GPU";
  for (int i = 0; i < count; ++i) {
    try {
      check(cudaSetDevice(i), "choosing the GPU");
      cudaDeviceProp properties{};
      check(cudaGetDeviceProperties(&properties, i), "asking the GPU for its properties");
      if (10 * properties.major + properties.minor < kLeastCapability) {
        why = std::string(properties.name) + ": compute capability 7.5 is the least";
        continue;
      }
      check(kernels_run_here(), (std::string(properties.name) + ": the plug-in's kernels").c_str());
      devices.push_back(
          std::make_unique<CudaDevice>(i, "gpu:" + std::to_string(devices.size())));
    } catch (const std::exception& error) {
      why = error.what();
    }
  }
  return devices;
}

}  // namespace warplite::gpu

#include "cpu/cpu_device.h"

#include <utility>

#include "compute/devices/gatherer.h"
#include "compute/devices/guarded.h"
#include "core/system.h"
#include "cpu/edit.h"
#include "cpu/ivf/assign.h"
#include "cpu/ivf/pq_assign.h"
#include "cpu/ivf/search.h"
#include "cpu/match/codes.h"
#include "cpu/match/match.h"
#include "cpu/metric/kernels.h"
#include "cpu/metric/search.h"
#include "cpu/runtime/targets.h"
#include "cpu/scan/search.h"
#include "cpu/scan/worker.h"
#include "cpu/sparse/search.h"

namespace warplite::cpu {
namespace {

// Where searches of several threads meet. There is one processor, whoever has a device of it.
compute::Gatherer& gatherer() {
  // Reading so much takes longer than to wake a thread that waits.
  constexpr std::size_t kLeastBytes = std::size_t{4} << 20;
  static compute::Gatherer& all = []() -> compute::Gatherer& {
    auto& made = *new compute::Gatherer(  // used by threads that outlive static objects
        {.least_bytes = kLeastBytes, .own_terms = true, .best_batch = best_batch});
    made.expect_forks();
    return made;
  }();
  return all;
}

class CpuDevice : public compute::Device {
 public:
  compute::DeviceInfo describe() const override {
    const unsigned threads = compute::thread_count();
    const std::string units = threads == 1 ? " thread" : " threads";
    return {"cpu", simd_target() + ", " + std::to_string(threads) + units, "ready", true,
            os::machine_memory(), used_};
  }

  bool supports(ElementType type, Distance distance) const override {
    return applies(distance, type);
  }

  bool takes_own_terms() const override { return true; }

  Status make_resident(compute::HostBytes bytes,
                       std::shared_ptr<const compute::Buffer>* out) override {
    return compute::guarded([&] { *out = std::make_shared<CpuBuffer>(std::move(bytes), used_); });
  }

  Status nearest(const compute::Workload& work, compute::HitTable& best) override {
    return compute::guarded([&] {
      if (work.metric != nullptr) return search_metric_nearest(*this, work, best);
      count_all(work);
      gatherer().nearest(work, best, scan).raise();
    });
  }

  Status within(const compute::Workload& work, compute::HitLists& out) override {
    return compute::guarded([&] {
      if (work.metric != nullptr) return search_metric_within(*this, work, out);
      count_all(work);
      gatherer().within(work, out, scan_within).raise();
    });
  }

  bool supports_ivf(const compute::IvfShape& shape) const override {
    if (shape.dim == 0 || shape.lists == 0) return false;
    if (shape.planes != 0) {
      return shape.planes <= compute::kMostPlanes && shape.bits == 4 &&
             shape.m == (shape.dim + compute::kRabitqDims - 1) / compute::kRabitqDims;
    }
    return shape.m == 0 || (shape.dim % shape.m == 0 && (shape.bits == 8 || shape.bits == 4));
  }

  Status ivf_nearest(const compute::IvfWork& work, compute::HitTable& best) override {
    return compute::guarded([&] { search_ivf_nearest(work, best); });
  }

  Status assign(const compute::AssignWork& work) override {
    return compute::guarded([&] { assign_nearest(work); });
  }

  Status pq_assign(const compute::PqAssignWork& work) override {
    return compute::guarded([&] { assign_codes(work); });
  }

  bool supports_match() const override { return true; }

  Status match(const compute::MatchWork& work, compute::HitTable& best) override {
    return compute::guarded([&] { search_match(work, best); });
  }

  bool supports_sparse() const override { return true; }

  Status sparse_nearest(const compute::SparseWork& work, compute::HitTable& best) override {
    return compute::guarded([&] { search_sparse_nearest(work, best); });
  }

  Status sparse_within(const compute::SparseWork& work, compute::HitLists& out) override {
    return compute::guarded([&] { search_sparse_within(work, out); });
  }

  bool supports_codes() const override { return true; }

  Status match_codes(const compute::CodeWork& work, compute::HitTable& best) override {
    return compute::guarded([&] { search_codes(work, best); });
  }

  void metric_distances(compute::MetricSpace space, const float* point,
                        const compute::MetricVectors& rows, std::uint32_t groups,
                        float* out) override {
    const int kernel = space == compute::MetricSpace::kL1 ? 1 : 0;
    metric_kernels().distances[kernel](point, rows.group(0), rows.dim, groups, out);
  }

  bool supports_edit() const override { return true; }

  void text_distances(std::span<const std::uint32_t> text, const compute::MetricTexts& texts,
                      std::uint32_t width, std::uint16_t* out) override {
    cpu::text_distances(text, texts, width, out);
  }

  Status edit_nearest(const compute::EditWork& work, compute::HitTable& best) override {
    return compute::guarded([&] { search_edit_nearest(*this, work, best); });
  }

  Status edit_within(const compute::EditWork& work, compute::HitLists& out) override {
    return compute::guarded([&] { search_edit_within(*this, work, out); });
  }

 private:
  static Status scan(const compute::Workload& work, compute::HitTable& best) {
    search_nearest(work, best);
    return {};
  }
  static Status scan_within(const compute::Workload& work, compute::HitLists& out) {
    search_within(work, out);
    return {};
  }

  std::atomic<std::size_t> used_{0};
};

}  // namespace

std::unique_ptr<compute::Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace warplite::cpu

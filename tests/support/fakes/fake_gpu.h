// A device with memory of its own that computes on the CPU: what a GPU looks like from outside
// gpu/, with room, failures and delays as a test wants them.
// Threads: as any device; its settings may be changed at any time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "compute/device.h"

namespace warplite::testing {

// Closed, it holds up whoever passes.
class Gate {
 public:
  void close() { set(false); }
  void open() { set(true); }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    opened_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = true;
};

class FakeGpu : public compute::Device {
 public:
  explicit FakeGpu(std::string name);

  compute::DeviceInfo describe() const override;
  bool usable() const override { return !lost; }
  bool own_memory() const override { return true; }
  bool supports(ElementType type, Distance distance) const override;
  Status make_resident(compute::HostBytes bytes,
                       std::shared_ptr<const compute::Buffer>* out) override;
  Status map_host(compute::HostBytes bytes, std::size_t held,
                  std::shared_ptr<const compute::Buffer>* out) override;
  std::size_t worthwhile_bytes() const override { return worthwhile; }
  Status nearest(const compute::Workload& work, compute::HitTable& best) override;
  Status within(const compute::Workload& work, compute::HitLists& out) override;
  bool supports_ivf(const compute::IvfShape& shape) const override;
  bool counts_lists(const compute::IvfShape&) const override { return counts; }
  bool rotates_queries(const compute::IvfShape& shape, std::size_t) const override {
    return rotates && shape.planes != 0;
  }
  Status ivf_nearest(const compute::IvfWork& work, compute::HitTable& best) override;
  Status tally(const compute::TallyWork& work, compute::ListTallies& out) override;
  bool supports_match() const override { return !flat_only; }
  Status match(const compute::MatchWork& work, compute::HitTable& best) override;
  bool supports_codes() const override { return !flat_only; }
  Status match_codes(const compute::CodeWork& work, compute::HitTable& best) override;
  bool supports_edit() const override { return !flat_only; }
  Status edit_nearest(const compute::EditWork& work, compute::HitTable& best) override;
  Status edit_within(const compute::EditWork& work, compute::HitLists& out) override;

  // Settings.
  std::string model = "fake";  // before the device is there
  std::atomic<std::size_t> memory{std::size_t{1} << 40};  // bytes there are
  std::atomic<std::size_t> worthwhile{0};
  std::atomic<bool> maps{true};
  std::atomic<int> fail_mappings{0};  // the next so many, since they cannot be mapped
  std::atomic<bool> makes_copies{false};  // half as large as its buffers, where it may
  std::atomic<bool> lost{false};
  std::atomic<bool> searches_ivf{true};
  std::atomic<bool> counts{false};    // rows of lists
  std::atomic<bool> rotates{false};   // queries of RaBitQ codes
  std::atomic<bool> flat_only{false};  // nothing is offered but nearest() and within()
  std::atomic<int> fail_searches{0};  // the next so many, with `failure`
  std::atomic<int> fail_uploads{0};   // the next so many, for want of memory
  std::atomic<std::size_t> most_uploads{SIZE_MAX};  // it is lost instead of the next one
  std::atomic<ErrorKind> failure{ErrorKind::kNoMemory};
  std::atomic<bool> dies{false};      // a search that fails with kDevice loses the device
  Gate uploads_pass;

  // What happened.
  std::atomic<std::size_t> uploads{0}, uploaded_bytes{0}, mappings{0}, operations{0};
  std::atomic<std::size_t> partly_held{0};  // of the mappings
  std::atomic<std::size_t> twins{0};  // uploads of what another one held
  std::atomic<std::size_t> copies_refused{0};  // searches that might not make them
  std::atomic<std::size_t> ivf_operations{0};  // of these, by inverted files
  std::atomic<std::size_t> rotated{0};         // queries that it rotated
  std::atomic<std::size_t> tallies{0};         // passes of k-means over what it holds
  std::atomic<std::size_t> queries{0};     // of all operations
  std::atomic<std::size_t> used{0};        // bytes of live buffers, but for those that are mapped
  std::atomic<std::size_t> mapped{0};      // those
  std::atomic<std::size_t> most_used{0};

 private:
  class Buffer;
  std::vector<compute::Block> on_host(std::span<const compute::Block> blocks) const;
  const compute::Buffer* on_host(const compute::Buffer* buffer) const;  // null stays null
  Status refuse();  // or not
  void make_copies(const compute::Workload& work);
  void count(std::size_t queries_asked);
  // A GPU keeps the rows of a search by compute::IvfWork::rows: fails unless those of one number are the same.
  void check_rows(const compute::IvfWork& work);
  Status take(std::size_t bytes);  // of its memory
  // With the tiles' bytes on the host: operation(work).
  template <typename Work, typename Operation>
  Status run_tiles(const Work& work, const Operation& operation);
  template <typename Operation>
  Status run(const compute::Workload& work, const Operation& operation);
  Status keep(compute::HostBytes bytes, std::size_t own,
              std::shared_ptr<const compute::Buffer>* out);

  const std::string name_;
  std::mutex rows_mutex_;
  std::map<std::uint64_t, std::vector<std::int64_t>> rows_;  // by that number
};

}  // namespace warplite::testing

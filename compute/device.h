// A Device does the arithmetic of searches: a few coarse operations, each over a
// batch of queries and a set of resident blocks. It knows no SQL, no files and no
// index structures.
// Threads: every member may be called from several threads at once.
// Ownership: the registry owns devices, for the life of the process; a Buffer is
// shared by whoever searches it and must not outlive its device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/codes.h"
#include "compute/edit.h"
#include "compute/edit_metric.h"
#include "compute/ivf.h"
#include "compute/match.h"
#include "compute/metric.h"
#include "compute/ops.h"
#include "compute/sparse.h"
#include "compute/tally.h"
#include "core/bytes.h"
#include "core/error.h"

namespace warplite::compute {

// Bytes resident on a device.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::size_t size() const = 0;
};

// Host bytes with shared ownership: `data` points into what `owner` keeps alive.
struct HostBytes {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;
  // The same bytes on another device, which may be nearer than the host's memory. Null: none known.
  std::shared_ptr<const Buffer> twin = nullptr;
};

struct DeviceInfo {
  std::string name;         // "cpu", "gpu:0"
  std::string description;  // model, SIMD target, threads
  std::string state;        // "ready", or why it cannot be used
  bool usable = false;
  std::size_t memory_total = 0;  // bytes
  std::size_t memory_used = 0;   // bytes in live Buffers
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo describe() const = 0;
  // Returns describe().usable. Every search asks, so it should cost nothing.
  virtual bool usable() const { return describe().usable; }
  // True: make_resident() copies into memory of the device's own, which a budget limits.
  virtual bool own_memory() const { return false; }
  virtual bool supports(ElementType type, Distance distance) const = 0;
  // Says whether queries of one workload may each have a range and rows of their own.
  virtual bool takes_own_terms() const { return false; }

  // Makes `bytes` resident. A device in host memory shares them without a copy; one with memory
  // of its own has copied them, and no longer needs their owner, when this returns.
  // kNoMemory when the device has no room for them.
  virtual Status make_resident(HostBytes bytes, std::shared_ptr<const Buffer>* out) = 0;

  // Makes what there is no room for readable all the same: the device copies the first `held`
  // bytes, which may be none, and operations read the others over the bus from the host's memory,
  // which is pinned while the buffer lives. Only runs (ivf.h) may be held in part, up to
  // IvfLayout::records. Devices may hold different parts of the same bytes; of bytes that overlap
  // others only in part nothing can be mapped.
  // Returns kLimit if these bytes cannot be mapped, kUnsupported if none can, and kNoMemory.
  virtual Status map_host(HostBytes bytes, std::size_t held, std::shared_ptr<const Buffer>* out);

  // Bytes compared (of vectors, times queries) below which handing over the work costs more
  // than the CPU needs to do it.
  virtual std::size_t worthwhile_bytes() const { return 0; }

  // Adds the nearest rows of every query to `best`. REQUIRES: best.queries() ==
  // work.queries.rows; supports(). On error `best` is unspecified.
  virtual Status nearest(const Workload& work, HitTable& best) = 0;

  // Appends every row within work.range. REQUIRES: out.size() == work.queries.rows.
  virtual Status within(const Workload& work, HitLists& out) = 0;

  // Inverted files (ivf.h). What a device does not offer the CPU does.
  virtual bool supports_ivf(const IvfShape& shape) const;
  // Says whether it takes so many queries of RaBitQ codes without IvfWork::model_queries, and brings
  // them into model space by the random rotation (host/rotation.h) itself, since that is quicker.
  virtual bool rotates_queries(const IvfShape&, std::size_t) const { return false; }
  // Says whether it counts in IvfWork::probed. One that does not leaves that, and `left`, as they
  // are.
  virtual bool counts_lists(const IvfShape&) const { return !own_memory(); }
  // Adds the nearest rows that the probed lists hold. REQUIRES: supports_ivf(), best.queries() ==
  // work.queries.rows. On error `best` is unspecified; kUnsupported: more nominees a query
  // than it takes (1,024 at least); the CPU takes any number.
  virtual Status ivf_nearest(const IvfWork& work, HitTable& best);
  // Calls nearest(), unless the device has a better way.
  virtual Status assign(const AssignWork& work);
  // Adds rows to the sums of their lists. On kUnsupported, for what it does not do, or not with
  // these rows, and on kNoMemory `out` is as before, and no turn was passed on; on another error it
  // is unspecified.
  virtual Status tally(const TallyWork& work, ListTallies& out);
  // The scalar reference, unless the device has better.
  virtual Status pq_assign(const PqAssignWork& work);

  // Match counts over postings (match.h). What a device does not offer the CPU does.
  virtual bool supports_match() const { return false; }
  // Adds the rows with the largest counts. REQUIRES: supports_match(), best.queries() ==
  // work.queries(). On error `best` is unspecified.
  virtual Status match(const MatchWork& work, HitTable& best);

  // The same over columns of codes (codes.h). REQUIRES: supports_codes(), best.queries() ==
  // work.queries(). On error `best` is unspecified.
  virtual bool supports_codes() const { return false; }
  virtual Status match_codes(const CodeWork& work, HitTable& best);

  // Edit distances (edit.h): the nearest texts of every query, and all within work.range.
  // REQUIRES: supports_edit(), and a row of the result for each query. On error it is unspecified.
  virtual bool supports_edit() const { return false; }
  virtual Status edit_nearest(const EditWork& work, HitTable& best);
  virtual Status edit_within(const EditWork& work, HitLists& out);

  // Sparse vectors (sparse.h): the nearest of every query, and all within work.range. REQUIRES:
  // supports_sparse(), and a row of the result for each query. On error it is unspecified.
  virtual bool supports_sparse() const { return false; }
  virtual Status sparse_nearest(const SparseWork& work, HitTable& best);
  virtual Status sparse_within(const SparseWork& work, HitLists& out);

  // These serve builders of metric indexes: the distance (metric.h) of a point to the rows of the
  // first `groups` groups, out[16 · groups]; and that of a text, by symbols, to the texts of some
  // groups, out[32 · groups], anything at places without a text. They run on the host, unless the
  // device has a better way.
  virtual void metric_distances(MetricSpace space, const float* point, const MetricVectors& rows,
                                std::uint32_t groups, float* out);
  virtual void text_distances(std::span<const std::uint32_t> text, const MetricTexts& texts,
                              std::uint32_t width, std::uint16_t* out);

  // Searches it has answered, as counted by whoever asked.
  std::uint64_t searches() const { return searches_; }
  void count_search() { ++searches_; }

 private:
  std::atomic<std::uint64_t> searches_{0};
};

// Those that have a part each of one piece of work, best first: one at least. They are the
// registry's. A single device is a list of one.
struct Devices : std::vector<Device*> {
  using vector::vector;
  Devices(Device& one) : vector{&one} {}
};

// What one of several devices reports, which is the registry's.
struct DeviceError : Error {
  DeviceError(Device& of, const Status& status) : Error(status.kind, status.message), device(&of) {}
  Device* device;
};

class Startup;

// The devices of this process. Those added by extension/registrations.cc before the first search
// are there from the start, the CPU among them; those of a plug-in appear later, and are then
// preferred.
// Threads: searches may run while devices appear.
class Registry {
 public:
  // Lives as long as the process.
  static Registry& instance();

  void add(std::unique_ptr<Device> device);

  // Devices that are opened in the background once somebody wants them (see startup.h). Until
  // they are there, `name` stands for them.
  using Open = std::function<std::string(const std::function<void(Device*)>& add)>;
  void add_later(std::string name, Open open);
  // Replaces the start, for tests; returns the one before. REQUIRES: nobody searches.
  Startup* exchange_later(Startup* startup);
  void begin_start() const;
  // Begins it and waits; see Startup::wait().
  bool wait_for_start(std::chrono::milliseconds patience, Cancellation* cancellation) const;

  // The first one added: the CPU, which is always usable. REQUIRES: it was added.
  Device& host() const { return *devices_.front().device; }
  // Every device that is there, in order of preference, usable or not.
  std::vector<Device*> devices() const;
  // The same, and a line for those that are not there.
  struct Line {
    DeviceInfo info;
    std::uint64_t searches;
  };
  std::vector<Line> describe() const;

  // Usable devices that appeared later, best first.
  std::vector<Device*> accelerators() const;
  // Says whether a device of this name ("gpu", "gpu:1") may be there once the start has ended.
  bool may_appear(std::string_view name) const;
  // Says whether `name` is one that usable() takes, now or later.
  bool knows(std::string_view name) const;
  // "auto" (or empty): every usable one. "cpu", "gpu" (all of that kind), "gpu:1": those.
  std::vector<Device*> usable(std::string_view name) const;
  // The first of usable(). Throws Error{kUnsupported} that names the devices there are.
  Device& choose(std::string_view name) const;

 private:
  struct Owned {
    std::unique_ptr<Device> device;
    std::string name;
  };
  struct Listed;
  std::vector<Listed> list() const;

  std::vector<Owned> devices_;
  std::string late_name_;
  std::atomic<Startup*> late_{nullptr};
};

// Worker threads for searches on the CPU, the caller's included (warp_config
// 'threads'); 0 means one per core.
void set_thread_count(unsigned threads);
unsigned thread_count();

}  // namespace warplite::compute

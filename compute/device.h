// A Device does the arithmetic of searches: a few coarse operations, each over a
// batch of queries and a set of resident blocks. It knows no SQL, no files and no
// index structures.
// Threads: every member may be called from several threads at once.
// Ownership: the registry owns devices, for the life of the process; a Buffer is
// shared by whoever searches it and must not outlive its device.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compute/ops.h"
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
  virtual bool supports(ElementType type, Distance distance) const = 0;

  // Makes `bytes` resident. A device in host memory shares them without a copy.
  virtual Status make_resident(HostBytes bytes, std::shared_ptr<const Buffer>* out) = 0;

  // Adds the nearest rows of every query to `best`. REQUIRES: best.queries() ==
  // work.queries.rows; supports(). On error `best` is unspecified.
  virtual Status nearest(const Workload& work, HitTable& best) = 0;

  // Appends every row within work.range. REQUIRES: out.size() == work.queries.rows.
  virtual Status within(const Workload& work, HitLists& out) = 0;
};

// The devices of this process, in order of preference. Filled once by
// extension/registrations.cc, before the first search.
class Registry {
 public:
  static Registry& instance();

  void add(std::unique_ptr<Device> device);
  std::vector<Device*> devices() const;
  // "auto" (or empty): the first usable one. "cpu", "gpu", "gpu:1": that one.
  // Throws Error{kUnsupported} that names the devices there are.
  Device& choose(std::string_view name) const;

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

// Worker threads for searches on the CPU, the caller's included (warp_config
// 'threads'); 0 means one per core.
void set_thread_count(unsigned threads);
unsigned thread_count();

}  // namespace warplite::compute

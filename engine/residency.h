// The process-wide cache of decoded blocks, keyed by stamp: what a stamp names
// never changes, so connections and threads share entries and nothing is ever
// invalidated, only evicted (least recently used first) to stay within a budget.
// An entry in use by a search stays alive through its shared_ptr.
// Threads: every member may be called from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/column.h"
#include "core/stamp.h"
#include "storage/storage.h"

namespace warplite::compute {
class Buffer;
class Device;
}

namespace warplite::engine {

// A vector column of a segment as searches use it.
struct ResidentVectors {
  storage::VectorBlock block;
};

class Residency {
 public:
  static Residency& instance();

  using LoadVectors = std::function<storage::VectorBlock()>;
  // The host copy, loaded by `load` when it is not cached. Two threads that miss at
  // once may both load; one result is kept.
  std::shared_ptr<const ResidentVectors> vectors(const Stamp& stamp, const std::string& owner,
                                                 const LoadVectors& load);
  // The same bytes on a device (for a device in host memory, shared with the above).
  std::shared_ptr<const compute::Buffer> buffer(compute::Device& device, const Stamp& stamp,
                                                const std::shared_ptr<const ResidentVectors>&);

  std::shared_ptr<const Column> column(const Stamp& stamp, const std::string& owner,
                                       const std::function<Column()>& load);
  std::shared_ptr<const std::vector<RowId>> rowids(
      const Stamp& stamp, const std::string& owner,
      const std::function<std::vector<RowId>()>& load);
  std::shared_ptr<const Bitmap> alive(const Stamp& stamp, const std::string& owner,
                                      const std::function<Bitmap()>& load);

  // Bytes; 0 means three quarters of the machine's memory.
  void set_limit(std::size_t bytes);
  std::size_t limit() const;  // as set, or the default in bytes
  std::size_t used() const;
  // Whether `bytes` more can stay within the limit once everything that is not in use is evicted.
  bool would_fit(std::size_t bytes) const;

  // What warp_residency() shows.
  struct Entry {
    std::string owner;   // "schema.table segment 3 embedding"
    std::string device;  // "cpu" …
    std::size_t bytes;
    bool in_use;
  };
  std::vector<Entry> entries() const;
  void clear();  // drops what is not in use

 private:
  struct Impl;
  Residency();
  ~Residency();
  std::unique_ptr<Impl> impl_;
};

}  // namespace warplite::engine

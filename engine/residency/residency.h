// The process-wide cache of decoded blocks. A key says all that a block must be, and what it says
// never changes: connections and threads share entries, what is found needs no check, and nothing
// is ever invalidated. Entries are evicted (least recently used first) to stay within a budget, and
// when no file has what they are made of any more.
// An entry in use by a search stays alive through its shared_ptr.
// Vectors have copies on devices with memory of their own. Each such device has a budget and an
// order of use of its own. What has to leave the host's memory stays on devices that have a copy.
// Threads: every member may be called from any thread. A forked child keeps the entries and
// forgets the copies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compute/ops.h"
#include "core/column.h"
#include "core/error.h"
#include "core/process/cache_key.h"
#include "storage/storage.h"

namespace warplite::compute {
class Buffer;
class Device;
}
namespace warplite::index {
class Model;
}

namespace warplite::engine {

// How much of something a device is to hold: everything, or what is hot, where anything is.
enum class Extent : std::uint8_t { kAll, kHot };

// A vector column of a segment as searches use it; or other bytes that devices hold, as a matrix
// of the type that says so.
struct ResidentVectors {
  storage::VectorBlock block;
  std::shared_ptr<const void> owner = nullptr;  // of the bytes, when they are not block.memory
  std::size_t beside = 0;                       // bytes of what else the owner holds
  // What the host needs of them where only devices have the rest (handing_over.h); null: they cannot
  // be left to devices.
  std::shared_ptr<const Bytes> head = nullptr;
  // The first so many bytes are hot: searches read all of them, and little of what comes behind. A
  // device that has room for them alone may read the others in place. 0: there is no difference.
  std::size_t hot = 0;

  // Bytes that a device holds which is to hold so much of them.
  std::size_t size(Extent extent = Extent::kAll) const {
    return extent == Extent::kHot && hot != 0 ? hot : block.vectors.rows * block.vectors.stride();
  }
};

class Residency : public compute::MemoryBudget {
 public:
  // Lives as long as the process.
  static Residency& instance();

  using LoadVectors = std::function<storage::VectorBlock()>;
  // The host copy, loaded by `load` when it is not cached, into about `bytes` bytes. Two threads
  // that miss at once may both load; one result is kept.
  std::shared_ptr<const ResidentVectors> vectors(const CacheKey& key, const std::string& owner,
                                                 std::size_t bytes, const LoadVectors& load);

  // The same with bytes of another kind, or another's. `made_of`: they go with the first of these
  // that does; if empty, with the key's source.
  std::shared_ptr<const ResidentVectors> bytes(const CacheKey& key, const std::string& owner,
                                               std::size_t expected,
                                               const std::function<ResidentVectors()>& load,
                                               std::span<const CacheKey> made_of = {});
  // Returns what is cached under this key, or null.
  std::shared_ptr<const ResidentVectors> find(const CacheKey& key);
  std::shared_ptr<const Column> find_column(const CacheKey& key);
  // Puts something under a key, in place of what may be there. It must not be used for what devices
  // copy.
  void replace(const CacheKey& key, const std::string& owner, ResidentVectors entry);
  // Evicts what nobody uses of these.
  void forget(std::span<const CacheKey> keys);

  // Somebody may read these blocks of a file, from now on and until as many calls of let_go(). When
  // the last one who may is gone, what is made of them goes too, unless the file has them still.
  void hold(std::span<const CacheKey> blocks);
  void let_go(std::span<const CacheKey> blocks) noexcept;
  // A version of the file that was committed has these, and has those no more that an earlier one
  // had: what nobody uses of them goes at once, although older versions may need it again.
  void settle(std::span<const CacheKey> there, std::span<const CacheKey> gone);

  // The same of all that is of a table, "schema.table"; those of that name in other files lose
  // theirs, too.
  void forget_table(const std::string& name);
  std::shared_ptr<const index::Model> model(
      const CacheKey& key, const std::string& owner,
      const std::function<std::shared_ptr<const index::Model>()>& load);

  std::shared_ptr<const Column> column(const CacheKey& key, const std::string& owner,
                                       const std::function<Column()>& load);
  std::shared_ptr<const std::vector<RowId>> rowids(
      const CacheKey& key, const std::string& owner,
      const std::function<std::vector<RowId>()>& load);
  std::shared_ptr<const Bitmap> alive(const CacheKey& key, const std::string& owner,
                                      const std::function<Bitmap()>& load);

  // Bytes; 0 means three quarters of the machine's memory.
  void set_limit(std::size_t bytes);
  std::size_t limit() const;  // as set, or the default in bytes
  std::size_t used() const;
  // Whether `bytes` more can stay within the limit once everything that is not in use is evicted.
  bool would_fit(std::size_t bytes);

  // The same bytes on a device; for a device in host memory, shared. A copy is made when there
  // is none yet, and room for it by evicting copies that are not in use; without room, the device
  // reads the host's bytes in place if it can, or what is not hot of them, until there is room.
  // kNoMemory when that fails too. `in_place`: whether it reads so what it was to hold. A copy of
  // more than the extent makes room for others once nobody uses it.
  // A null key names bytes that nobody else will ask for: the copy is for this use only.
  Status buffer(compute::Device& device, const CacheKey& key,
                const std::shared_ptr<const ResidentVectors>& vectors,
                std::shared_ptr<const compute::Buffer>* out, bool* in_place = nullptr,
                Extent extent = Extent::kAll);

  // The copy that the device has in memory of its own, and the head of what was copied. Nulls:
  // there is none, or it is being made, or what was copied has no head.
  struct CopyOnDevice {
    std::shared_ptr<const compute::Buffer> buffer;
    std::shared_ptr<const Bytes> head;
  };
  CopyOnDevice copy_on(compute::Device& device, const CacheKey& key);
  // Evicts the host's bytes, unless somebody uses them or no device has a copy in memory of its own.
  void leave_to_devices(const CacheKey& key);

  // Bytes a device may hold, each; 0 means four fifths of its memory. Evicts at once, and gives
  // what is read in place another chance.
  void set_device_limit(std::size_t bytes);
  std::size_t device_limit() const;  // as set

  struct Want {
    CacheKey key;
    std::size_t bytes;
  };
  struct Holding {
    std::size_t budget = 0;    // bytes the device may hold
    std::size_t held = 0;      // bytes of copies it holds, of anything
    std::size_t present = 0;   // bytes of what is wanted that it holds, or reads in place
    bool maps = true;          // whether it may be able to read in place
  };
  enum class Presence : std::uint8_t { kNone, kInPlace, kHeld };
  // Returns how much of `wanted` the device holds. `has`, if not empty, is set for each. REQUIRES:
  // own_memory().
  Holding holding(compute::Device& device, std::span<const Want> wanted,
                  std::span<Presence> has = {});
  // Evicts the device's copies that are not in use.
  void release_idle(const compute::Device& device);
  // Evicts those that were used least recently, until half of what was used is free. For a device
  // that lacks memory for the work itself.
  void release_oldest(const compute::Device& device);

  // From now on, what belongs to a copy counts as part of it, and goes when the copy does.
  bool reserve(std::span<const Growth> growth) noexcept override;
  void give_back(std::span<const Growth> growth) noexcept override;

  // Holds many entries, and their copies on a device, for searches to come. The cache gives up
  // what nobody else holds when it has to evict anything.
  class Holder {
   public:
    explicit Holder(compute::Device& device) : device_(device) {}
    virtual ~Holder() = default;
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    compute::Device& device() const { return device_; }

   protected:
    void add(const CacheKey& key) { keys_.push_back(key); }

   private:
    friend class Residency;
    compute::Device& device_;
    std::vector<CacheKey> keys_;
    std::atomic<std::uint64_t> used_at_{0};
  };
  void keep(std::shared_ptr<Holder> holder);
  void release(const Holder& holder);
  // Counts as a use of all that it holds.
  void use(Holder& holder) const;

  // A line of warp_residency().
  struct Entry {
    std::string owner;   // "schema.table segment 3 embedding"
    std::string device;  // "cpu" …
    std::size_t bytes;   // of that device's memory
    bool in_use;
    // Or "mapped": read in place; "partial": what is not hot is; "uploading".
    const char* state = "resident";
  };
  std::vector<Entry> entries();
  void clear();  // drops what is not in use

 private:
  struct Impl;
  void forget_made_of(std::vector<std::uint64_t> sources);
  Residency();
  ~Residency() override;
  std::unique_ptr<Impl> impl_;
};

// Holds blocks as long as it lives.
class HeldBlocks {
 public:
  HeldBlocks() = default;
  ~HeldBlocks() { Residency::instance().let_go(keys_); }
  HeldBlocks(const HeldBlocks&) = delete;
  HeldBlocks& operator=(const HeldBlocks&) = delete;

  // REQUIRES: it holds none yet.
  void hold(std::vector<CacheKey> keys) {
    Residency::instance().hold(keys);
    keys_ = std::move(keys);
  }
  const std::vector<CacheKey>& keys() const { return keys_; }

 private:
  std::vector<CacheKey> keys_;
};

}  // namespace warplite::engine

// Declares what residency.cc (the cache of entries) and device_copies.cc (their copies on devices)
// share.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compute/device.h"
#include "core/process/process.h"
#include "engine/residency/residency.h"

namespace warplite::engine {

// An entry's vectors on a device.
struct DeviceCopy {
  // kPartial: the hot bytes are in the device's memory, and the others are read in place.
  enum class Place : std::uint8_t { kShared, kMaking, kResident, kPartial, kMapped };

  compute::Device* device;
  Place place;
  std::size_t bytes;  // of the device's memory
  std::size_t beside = 0;  // of these, what the device made of it
  std::uint64_t used_at = 0;
  std::shared_ptr<const compute::Buffer> buffer = nullptr;  // null while it is made
  std::weak_ptr<const void> host = {};  // alive while the buffer shares the host's bytes
  const unsigned made_after = forks();

  DeviceCopy(compute::Device* on, Place where, std::size_t size)
      : device(on), place(where), bytes(size) {}
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  ~DeviceCopy();

  bool idle() const { return place != Place::kMaking && buffer.use_count() == 1; }
  std::size_t held() const { return bytes - beside; }  // of the entry's bytes
};

struct Residency::Impl {
  enum class Kind : std::uint8_t { kVectors, kColumn, kRowIds, kAlive, kModel };
  struct Key {
    CacheKey key;
    Kind kind;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return CacheKeyHash()(key.key) + static_cast<std::size_t>(key.kind);
    }
  };
  using Copies = std::list<DeviceCopy>;
  struct Cached {
    Key key;
    std::string owner;
    std::shared_ptr<const void> value;  // null: only devices have it
    std::size_t bytes;                  // of the value, or of the head
    Copies copies;
    std::shared_ptr<const Bytes> head = nullptr;  // of the value, while only devices have it
    std::vector<std::uint64_t> sources = {};      // as in `made_of`

    // True when somebody besides the cache holds the value or a copy.
    bool in_use() const;
    // True when the host's memory for the value could be freed: nobody needs it, or devices have
    // copies of their own.
    bool can_leave_host() const;
    bool is_on_device() const;  // in memory of its own
    Copies::iterator copy_on(const compute::Device& device);
  };
  using List = std::list<Cached>;  // most recently used first

  // A device with memory of its own.
  struct Account {
    compute::Device* device;
    std::string name;
    std::size_t total;     // the device's memory; 0: unknown
    std::size_t used = 0;  // bytes of the copies there
    bool maps = true;      // false once it failed to read in place
    std::chrono::steady_clock::time_point crowded_until = {};  // looking for room is no use
  };

  // Things evicted from the cache, which the caller frees without the lock. Moving it there must
  // not fail: an entry is counted exactly while it is in `entries`.
  struct Evicted {
    List entries;
    Copies copies;
    std::vector<std::shared_ptr<const void>> values;  // of which devices keep copies
  };

  mutable std::mutex mutex;
  std::condition_variable made;  // a copy, or not
  List entries;
  std::unordered_map<Key, List::iterator, KeyHash> index;
  // By CacheKey::source: what goes with a block, and the blocks that somebody may read.
  std::unordered_multimap<std::uint64_t, List::iterator> made_of;
  struct Block {
    std::size_t readers = 0;
    bool in_file = false;  // that is committed
  };
  std::unordered_map<std::uint64_t, Block> blocks;
  std::unordered_set<std::uint64_t> dying;  // nobody may read them, but something of them is used
  std::unordered_set<std::uint64_t> gone;   // the last that files had and have no more
  static constexpr std::size_t kMostGone = std::size_t{1} << 16;
  std::size_t used = 0;  // of the host's memory
  std::size_t limit = 0;
  std::list<Account> accounts;
  std::size_t device_limit = 0;
  std::atomic<std::uint64_t> clock{0};  // counts uses of copies
  std::vector<std::shared_ptr<Holder>> holders;

  // All of these REQUIRE the lock, unless they say otherwise.
  std::size_t effective_limit() const;
  List::iterator touch(const Key& key);  // end() when there is none
  void evict_to(std::size_t target, Evicted& out);
  void evict(List::iterator entry, Evicted& out);
  void leave_host(Cached& entry, Evicted& out);
  void remove_empty(Evicted& out);
  bool evict_made_of(const std::vector<std::uint64_t>& sources, Evicted& out);
  void insert(Cached&& entry);
  void take_out_of_index(List::iterator entry);
  void drop_holders();
  // Drops those of any of these. False: there were none.
  bool drop_holders_of(const std::unordered_set<CacheKey, CacheKeyHash>& keys);
  template <typename Which>
  bool drop_idle_holders(const Which& which);

  Account* account_of(const compute::Device& device);  // null: none yet
  // Releases the lock for a moment the first time.
  Account& account_for(compute::Device& device, std::unique_lock<std::mutex>& lock);
  std::size_t budget(const Account& account) const;
  // Evicts the least recently used copies, of those last used before `before`, until at most
  // `target` bytes are used. When that cannot be reached: all of them that are idle, or none.
  enum class Shortfall { kAll, kNone };
  bool shrink(Account& account, std::size_t target, std::uint64_t before, Shortfall shortfall,
              Evicted& out);
  void drop(Cached& entry, Copies::iterator copy, Evicted& out);
  // Returns the copies of those of the buffers that have one here, in any order; buffers without a
  // copy are left out.
  using Growth = compute::MemoryBudget::Growth;
  std::vector<std::pair<DeviceCopy*, std::size_t>> copies_of(std::span<const Growth> growth);
  // Drops every idle copy that `which` (a bool(const DeviceCopy&)) names.
  template <typename Which>
  void drop_idle(const Which& which, Evicted& out);

  class CopyMaker;
  Status share(compute::Device& device, const CacheKey& key,
               const std::shared_ptr<const ResidentVectors>& vectors,
               std::shared_ptr<const compute::Buffer>* out);  // takes the lock itself

  template <typename T, typename Load>
  std::shared_ptr<const T> get(const Key& key, const std::string& owner, std::size_t expected,
                               const Load& load,  // takes the lock itself; expected: bytes, or 0
                               std::span<const CacheKey> made_of = {});
};

}  // namespace warplite::engine

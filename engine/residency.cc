#include "engine/residency.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>

#include <unistd.h>

#include "compute/device.h"

namespace warplite::engine {
namespace {

enum class Kind : std::uint8_t { kVectors, kColumn, kRowIds, kAlive };

struct Key {
  Stamp stamp;
  Kind kind;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return StampHash()(key.stamp) + static_cast<std::size_t>(key.kind);
  }
};

// A copy of an entry's vectors on a device.
struct DeviceCopy {
  compute::Device* device;
  std::string name;
  std::shared_ptr<const compute::Buffer> buffer;
  std::weak_ptr<const void> host;  // alive while the buffer shares the host's bytes
  std::size_t bytes;               // of its own
};

struct Cached {
  Key key;
  std::string owner;
  std::shared_ptr<const void> value;
  std::size_t bytes;
  std::vector<DeviceCopy> copies;

  // True when somebody besides the cache holds the value or a copy.
  bool in_use() const {
    long held = 1;
    for (const DeviceCopy& copy : copies) {
      if (copy.buffer.use_count() > 1) return true;
      if (!copy.host.expired()) ++held;
    }
    return value.use_count() > held;
  }
  std::size_t total() const {
    std::size_t sum = bytes;
    for (const DeviceCopy& copy : copies) sum += copy.bytes;
    return sum;
  }
};

std::size_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  constexpr std::size_t kGuess = std::size_t{4} << 30;
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                               : kGuess;
}

std::size_t bytes_of(const ResidentVectors& vectors) {
  return vectors.block.memory.size() + vectors.block.present.word_count() * 8;
}
std::size_t bytes_of(const Column& column) {
  return column.memory();
}
std::size_t bytes_of(const std::vector<RowId>& rowids) {
  return rowids.size() * sizeof(RowId);
}
std::size_t bytes_of(const Bitmap& bits) {
  return bits.word_count() * 8;
}

}  // namespace

struct Residency::Impl {
  using List = std::list<Cached>;  // most recently used first

  mutable std::mutex mutex;
  List entries;
  std::unordered_map<Key, List::iterator, KeyHash> index;
  std::size_t used = 0;
  std::size_t limit = 0;

  std::size_t effective_limit() const { return limit != 0 ? limit : machine_memory() / 4 * 3; }

  // The entry, now the most recently used one; end() when there is none.
  List::iterator touch(const Key& key) {
    const auto found = index.find(key);
    if (found == index.end()) return entries.end();
    entries.splice(entries.begin(), entries, found->second);
    return found->second;
  }

  // What leaves the cache is freed by the caller, without the lock. Moving it there must not
  // fail: an entry is counted exactly while it is in `entries`.
  using Evicted = List;
  void evict_to(std::size_t target, Evicted& out) {
    for (auto at = entries.end(); used > target && at != entries.begin();) {
      --at;
      if (at->in_use()) continue;
      const auto evicted = at++;
      used -= evicted->total();
      index.erase(evicted->key);
      out.splice(out.end(), entries, evicted);
    }
  }

  template <typename T, typename Load>
  std::shared_ptr<const T> get(const Key& key, const std::string& owner, const Load& load) {
    {
      const std::lock_guard lock(mutex);
      const auto at = touch(key);
      if (at != entries.end()) return std::static_pointer_cast<const T>(at->value);
    }
    std::shared_ptr<const T> loaded = load();
    const std::size_t bytes = bytes_of(*loaded);
    Evicted evicted;
    const std::lock_guard lock(mutex);
    const auto at = touch(key);
    if (at != entries.end()) return std::static_pointer_cast<const T>(at->value);
    const std::size_t limit_now = effective_limit();
    evict_to(limit_now > bytes ? limit_now - bytes : 0, evicted);
    entries.push_front({key, owner, loaded, bytes, {}});
    try {
      index.emplace(key, entries.begin());
    } catch (...) {
      entries.pop_front();
      throw;
    }
    used += bytes;
    return loaded;
  }
};

Residency& Residency::instance() {
  static Residency residency;
  return residency;
}

Residency::Residency() : impl_(std::make_unique<Impl>()) {}
Residency::~Residency() = default;

std::shared_ptr<const ResidentVectors> Residency::vectors(const Stamp& stamp,
                                                          const std::string& owner,
                                                          const LoadVectors& load) {
  return impl_->get<ResidentVectors>({stamp, Kind::kVectors}, owner, [&] {
    return std::make_shared<const ResidentVectors>(ResidentVectors{load()});
  });
}

std::shared_ptr<const Column> Residency::column(const Stamp& stamp, const std::string& owner,
                                                const std::function<Column()>& load) {
  return impl_->get<Column>({stamp, Kind::kColumn}, owner,
                            [&] { return std::make_shared<const Column>(load()); });
}

std::shared_ptr<const std::vector<RowId>> Residency::rowids(
    const Stamp& stamp, const std::string& owner, const std::function<std::vector<RowId>()>& load) {
  return impl_->get<std::vector<RowId>>({stamp, Kind::kRowIds}, owner, [&] {
    return std::make_shared<const std::vector<RowId>>(load());
  });
}

std::shared_ptr<const Bitmap> Residency::alive(const Stamp& stamp, const std::string& owner,
                                               const std::function<Bitmap()>& load) {
  return impl_->get<Bitmap>({stamp, Kind::kAlive}, owner,
                            [&] { return std::make_shared<const Bitmap>(load()); });
}

std::shared_ptr<const compute::Buffer> Residency::buffer(
    compute::Device& device, const Stamp& stamp,
    const std::shared_ptr<const ResidentVectors>& vectors) {
  const Key key{stamp, Kind::kVectors};
  const auto find_copy = [&]() -> std::shared_ptr<const compute::Buffer> {
    const auto at = impl_->touch(key);
    if (at == impl_->entries.end()) return nullptr;
    for (const DeviceCopy& copy : at->copies) {
      if (copy.device == &device) return copy.buffer;
    }
    return nullptr;
  };
  {
    const std::lock_guard lock(impl_->mutex);
    if (auto known = find_copy()) return known;
  }
  const MatrixView& data = vectors->block.vectors;
  const std::size_t size = data.rows * data.stride();
  // An object of our own between the buffer and the vectors tells whether it shares them.
  auto host = std::make_shared<const std::shared_ptr<const ResidentVectors>>(vectors);
  const std::weak_ptr<const void> shares = host;
  std::shared_ptr<const compute::Buffer> buffer;
  device.make_resident({std::move(host), data.data, size}, &buffer).raise();
  const std::size_t own = shares.expired() ? size : 0;
  std::string name = device.describe().name;

  Impl::Evicted evicted;
  const std::lock_guard lock(impl_->mutex);
  if (auto known = find_copy()) return known;
  const auto at = impl_->touch(key);
  if (at == impl_->entries.end()) return buffer;  // evicted meanwhile: used once, then gone
  at->copies.push_back({&device, std::move(name), buffer, shares, own});
  impl_->used += own;
  impl_->evict_to(impl_->effective_limit(), evicted);
  return buffer;
}

void Residency::set_limit(std::size_t bytes) {
  Impl::Evicted evicted;
  const std::lock_guard lock(impl_->mutex);
  impl_->limit = bytes;
  impl_->evict_to(impl_->effective_limit(), evicted);
}

std::size_t Residency::limit() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->effective_limit();
}

std::size_t Residency::used() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->used;
}

bool Residency::would_fit(std::size_t bytes) const {
  const std::lock_guard lock(impl_->mutex);
  std::size_t busy = 0;
  for (const Cached& entry : impl_->entries) {
    if (entry.in_use()) busy += entry.total();
  }
  const std::size_t limit_now = impl_->effective_limit();
  return busy <= limit_now && bytes <= limit_now - busy;
}

std::vector<Residency::Entry> Residency::entries() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Entry> out;
  for (const Cached& entry : impl_->entries) {
    const bool in_use = entry.in_use();
    out.push_back({entry.owner, "cpu", entry.bytes, in_use});
    for (const DeviceCopy& copy : entry.copies) {
      if (copy.bytes != 0) out.push_back({entry.owner, copy.name, copy.bytes, in_use});
    }
  }
  return out;
}

void Residency::clear() {
  Impl::Evicted evicted;
  const std::lock_guard lock(impl_->mutex);
  impl_->evict_to(0, evicted);
}

}  // namespace warplite::engine

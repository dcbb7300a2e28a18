#include "engine/residency/residency.h"

#include <algorithm>
#include <cstring>

#include "core/system.h"
#include "engine/residency/handing_over.h"
#include "engine/residency/residency_impl.h"
#include "index/trained.h"

namespace warplite::engine {
namespace {

std::size_t machine_memory() {
  constexpr std::size_t kGuess = std::size_t{4} << 30;
  const std::size_t memory = os::machine_memory();
  return memory != 0 ? memory : kGuess;
}

std::size_t bytes_of(const ResidentVectors& vectors) {
  return vectors.block.memory.size() + vectors.block.present.word_count() * 8 + vectors.beside +
         (vectors.head != nullptr ? vectors.head->size() : 0);
}
std::size_t bytes_of(const index::Model& model) {
  return model.memory();
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

bool is_head_of(const Bytes& head, const ResidentVectors& vectors) {
  return vectors.head != nullptr && vectors.head->size() == head.size() &&
         std::memcmp(vectors.head->data(), head.data(), head.size()) == 0;
}
template <typename T>
bool is_head_of(const Bytes&, const T&) {
  return false;
}

}  // namespace

bool Residency::Impl::Cached::in_use() const {
  long held = 1;
  for (const DeviceCopy& copy : copies) {
    if (copy.place == DeviceCopy::Place::kMaking || copy.buffer.use_count() > 1) return true;
    if (!copy.host.expired()) ++held;
  }
  return value.use_count() > held;
}

std::size_t Residency::Impl::effective_limit() const {
  return limit != 0 ? limit : machine_memory() / 4 * 3;
}

// The entry, now the most recently used one.
Residency::Impl::List::iterator Residency::Impl::touch(const Key& key) {
  const auto found = index.find(key);
  if (found == index.end()) return entries.end();
  entries.splice(entries.begin(), entries, found->second);
  return found->second;
}

bool Residency::Impl::Cached::is_on_device() const {
  return std::any_of(copies.begin(), copies.end(), [](const DeviceCopy& copy) {
    return copy.place == DeviceCopy::Place::kResident && copy.made_after == forks();
  });
}

bool Residency::Impl::Cached::can_leave_host() const {
  if (value == nullptr) return false;
  if (!is_on_device()) return !in_use();
  long held = 1;
  for (const DeviceCopy& copy : copies) {
    if (copy.place == DeviceCopy::Place::kMaking) return false;
    if (copy.host.expired()) continue;
    if (copy.buffer.use_count() > 1) return false;
    ++held;
  }
  return value.use_count() == held;
}

void Residency::Impl::evict_to(std::size_t target, Evicted& out) {
  if (used > target) drop_holders();
  for (auto at = entries.end(); used > target && at != entries.begin();) {
    --at;
    if (!at->can_leave_host()) continue;
    if (at->is_on_device()) {
      leave_host(*at, out);
    } else {
      evict(at++, out);
    }
  }
}

void Residency::Impl::evict(List::iterator entry, Evicted& out) {
  used -= entry->bytes;
  while (!entry->copies.empty()) drop(*entry, entry->copies.begin(), out);
  take_out_of_index(entry);
  out.entries.splice(out.entries.end(), entries, entry);
}

void Residency::Impl::take_out_of_index(List::iterator entry) {
  index.erase(entry->key);
  for (const std::uint64_t source : entry->sources) {
    const auto [first, last] = made_of.equal_range(source);
    const auto found =
        std::find_if(first, last, [&](const auto& one) { return one.second == entry; });
    if (found != last) made_of.erase(found);
  }
}

void Residency::Impl::insert(Cached&& entry) {
  entries.push_front(std::move(entry));
  const auto at = entries.begin();
  try {
    index.emplace(at->key, at);
    for (const std::uint64_t source : at->sources) made_of.emplace(source, at);
  } catch (...) {
    take_out_of_index(at);
    entries.pop_front();
    throw;
  }
  used += at->bytes;
}

// Copies that a device has in memory of its own stay; names for the host's bytes go with them.
// REQUIRES: devices have the entry, so that it is of vectors.
void Residency::Impl::leave_host(Cached& entry, Evicted& out) {
  for (auto at = entry.copies.begin(); at != entry.copies.end();) {
    const auto copy = at++;
    if (!copy->host.expired()) drop(entry, copy, out);
  }
  entry.head = static_cast<const ResidentVectors*>(entry.value.get())->head;
  used -= entry.bytes;
  entry.bytes = entry.head != nullptr ? entry.head->size() : 0;
  used += entry.bytes;
  try {
    out.values.push_back(std::move(entry.value));
  } catch (const std::bad_alloc&) {
    entry.value = nullptr;  // freed here, then
  }
}

// Entries that neither the host nor a device has any more.
void Residency::Impl::remove_empty(Evicted& out) {
  for (auto at = entries.begin(); at != entries.end();) {
    const auto entry = at++;
    if (entry->value == nullptr && entry->copies.empty()) evict(entry, out);
  }
}

template <typename T, typename Load>
std::shared_ptr<const T> Residency::Impl::get(const Key& key, const std::string& owner,
                                              std::size_t expected, const Load& load,
                                              std::span<const CacheKey> made_of_these) {
  {
    // Room is made before it is needed: what goes is freed before what comes is read.
    Evicted evicted;
    const std::lock_guard lock(mutex);
    const auto at = touch(key);
    if (at != entries.end() && at->value != nullptr) {
      return std::static_pointer_cast<const T>(at->value);
    }
    const std::size_t limit_now = effective_limit();
    if (expected != 0) evict_to(limit_now > expected ? limit_now - expected : 0, evicted);
  }
  std::shared_ptr<const T> loaded = load();
  const std::size_t bytes = bytes_of(*loaded);
  Evicted evicted;
  const std::lock_guard lock(mutex);
  auto at = touch(key);
  if (at != entries.end() && at->value != nullptr) {
    return std::static_pointer_cast<const T>(at->value);
  }
  const std::size_t limit_now = effective_limit();
  evict_to(limit_now > bytes ? limit_now - bytes : 0, evicted);
  at = touch(key);
  if (at != entries.end()) {
    // Copies stay where they are of these bytes, as far as heads tell, whatever somebody may have
    // done to the file since they were made. (None is being made: that would need the value.) A
    // search that uses one that goes frees it.
    const bool same = at->head != nullptr && is_head_of(*at->head, *loaded);
    while (!same && !at->copies.empty()) drop(*at, at->copies.begin(), evicted);
    at->head = nullptr;
    used += bytes - at->bytes;
    at->value = loaded;
    at->bytes = bytes;
    return loaded;
  }
  std::vector<std::uint64_t> sources;
  for (const CacheKey& one : made_of_these) sources.push_back(one.source);
  if (sources.empty()) sources.push_back(key.key.source);
  insert({key, owner, loaded, bytes, {}, nullptr, std::move(sources)});
  return loaded;
}

Residency& Residency::instance() {
  // Never destroyed: drivers are gone by then, and searches of other threads may not be.
  static Residency& residency = *new Residency;
  return residency;
}

Residency::Residency() : impl_(std::make_unique<Impl>()) { lock_across_forks(impl_->mutex); }
Residency::~Residency() = default;

std::shared_ptr<const ResidentVectors> Residency::vectors(const CacheKey& key,
                                                          const std::string& owner,
                                                          std::size_t bytes,
                                                          const LoadVectors& load) {
  return impl_->get<ResidentVectors>({key, Impl::Kind::kVectors}, owner, bytes, [&] {
    ResidentVectors loaded{load(), nullptr};
    loaded.head = std::make_shared<const Bytes>(head_of(loaded.block));
    return std::make_shared<const ResidentVectors>(std::move(loaded));
  });
}

std::shared_ptr<const ResidentVectors> Residency::bytes(
    const CacheKey& key, const std::string& owner, std::size_t expected,
    const std::function<ResidentVectors()>& load, std::span<const CacheKey> made_of) {
  return impl_->get<ResidentVectors>(
      {key, Impl::Kind::kVectors}, owner, expected,
      [&] { return std::make_shared<const ResidentVectors>(load()); }, made_of);
}

std::shared_ptr<const ResidentVectors> Residency::find(const CacheKey& key) {
  const std::lock_guard lock(impl_->mutex);
  const auto at = impl_->touch({key, Impl::Kind::kVectors});
  if (at == impl_->entries.end()) return nullptr;  // and null, where only devices have it
  return std::static_pointer_cast<const ResidentVectors>(at->value);
}

std::shared_ptr<const Column> Residency::find_column(const CacheKey& key) {
  const std::lock_guard lock(impl_->mutex);
  const auto at = impl_->touch({key, Impl::Kind::kColumn});
  return at == impl_->entries.end() ? nullptr : std::static_pointer_cast<const Column>(at->value);
}

void Residency::replace(const CacheKey& key, const std::string& owner, ResidentVectors entry) {
  const auto value = std::make_shared<const ResidentVectors>(std::move(entry));
  {
    const std::lock_guard lock(impl_->mutex);
    const auto at = impl_->touch({key, Impl::Kind::kVectors});
    if (at != impl_->entries.end()) {
      const std::size_t bytes = bytes_of(*value);
      impl_->used = impl_->used - at->bytes + bytes;
      at->bytes = bytes;
      at->value = value;
      return;
    }
  }
  impl_->get<ResidentVectors>({key, Impl::Kind::kVectors}, owner, 0, [&] { return value; });
}

std::shared_ptr<const index::Model> Residency::model(
    const CacheKey& key, const std::string& owner,
    const std::function<std::shared_ptr<const index::Model>()>& load) {
  return impl_->get<index::Model>({key, Impl::Kind::kModel}, owner, 0, load);
}

std::shared_ptr<const Column> Residency::column(const CacheKey& key, const std::string& owner,
                                                const std::function<Column()>& load) {
  return impl_->get<Column>({key, Impl::Kind::kColumn}, owner, 0,
                            [&] { return std::make_shared<const Column>(load()); });
}

std::shared_ptr<const std::vector<RowId>> Residency::rowids(
    const CacheKey& key, const std::string& owner, const std::function<std::vector<RowId>()>& load) {
  return impl_->get<std::vector<RowId>>({key, Impl::Kind::kRowIds}, owner, 0, [&] {
    return std::make_shared<const std::vector<RowId>>(load());
  });
}

std::shared_ptr<const Bitmap> Residency::alive(const CacheKey& key, const std::string& owner,
                                               const std::function<Bitmap()>& load) {
  return impl_->get<Bitmap>({key, Impl::Kind::kAlive}, owner, 0,
                            [&] { return std::make_shared<const Bitmap>(load()); });
}

void Residency::forget(std::span<const CacheKey> keys) {
  Impl::Evicted evicted;
  const std::lock_guard lock(impl_->mutex);
  impl_->drop_holders();
  for (const CacheKey& key : keys) {
    for (const auto kind : {Impl::Kind::kVectors, Impl::Kind::kColumn}) {
      const auto found = impl_->index.find({key, kind});
      if (found == impl_->index.end() || found->second->in_use()) continue;
      impl_->evict(found->second, evicted);
    }
  }
}

void Residency::leave_to_devices(const CacheKey& key) {
  Impl::Evicted evicted;
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->index.find({key, Impl::Kind::kVectors});
  if (found == impl_->index.end()) return;
  Impl::Cached& entry = *found->second;
  if (entry.is_on_device() && entry.can_leave_host()) impl_->leave_host(entry, evicted);
}

void Residency::forget_table(const std::string& name) {
  const std::string prefix = name + " ";
  // What is made of a model holds it: it can go when they are gone.
  for (bool any = true; any;) {
    Impl::Evicted evicted;
    const std::lock_guard lock(impl_->mutex);
    impl_->drop_holders();
    for (auto at = impl_->entries.begin(); at != impl_->entries.end();) {
      const auto entry = at++;
      if (entry->owner.starts_with(prefix) && !entry->in_use()) impl_->evict(entry, evicted);
    }
    any = !evicted.entries.empty();
  }
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

bool Residency::would_fit(std::size_t bytes) {
  const std::lock_guard lock(impl_->mutex);
  impl_->drop_holders();
  std::size_t busy = 0;
  for (const Impl::Cached& entry : impl_->entries) {
    if (!entry.can_leave_host()) busy += entry.bytes;
  }
  const std::size_t limit_now = impl_->effective_limit();
  return busy <= limit_now && bytes <= limit_now - busy;
}

void Residency::clear() {
  Impl::Evicted evicted;
  const std::lock_guard lock(impl_->mutex);
  impl_->drop_holders();
  for (auto at = impl_->entries.begin(); at != impl_->entries.end();) {
    const auto entry = at++;
    if (!entry->in_use()) impl_->evict(entry, evicted);
  }
}

}  // namespace warplite::engine

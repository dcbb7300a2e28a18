// Residency, the copies on devices: found, made, evicted.
#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "core/process/interruption.h"
#include "engine/residency/residency_impl.h"

namespace warplite::engine {
namespace {

using Place = DeviceCopy::Place;

// The vectors' bytes. An object of our own owns them, so that `shares` tells whether the device
// still does.
compute::HostBytes host_bytes(const std::shared_ptr<const ResidentVectors>& vectors,
                              std::weak_ptr<const void>& shares) {
  auto owner = std::make_shared<const std::shared_ptr<const ResidentVectors>>(vectors);
  shares = owner;
  return {std::move(owner), vectors->block.vectors.data, vectors->size()};
}

}  // namespace

// In a forked child the driver that made the buffer does not work, so its memory goes with the
// child.
DeviceCopy::~DeviceCopy() {
  if (place == Place::kShared || made_after == forks()) return;
  static_cast<void>(new (std::nothrow) std::shared_ptr<const compute::Buffer>(std::move(buffer)));
}

Residency::Impl::Copies::iterator Residency::Impl::Cached::copy_on(const compute::Device& device) {
  return std::find_if(copies.begin(), copies.end(),
                      [&](const DeviceCopy& copy) { return copy.device == &device; });
}

Residency::Impl::Account* Residency::Impl::account_of(const compute::Device& device) {
  for (Account& one : accounts) {
    if (one.device == &device) return &one;
  }
  return nullptr;
}

Residency::Impl::Account& Residency::Impl::account_for(compute::Device& device,
                                                       std::unique_lock<std::mutex>& lock) {
  if (Account* known = account_of(device)) return *known;
  lock.unlock();
  compute::DeviceInfo info = device.describe();  // may ask a driver
  lock.lock();
  if (Account* known = account_of(device)) return *known;
  accounts.push_back({&device, std::move(info.name), info.memory_total});
  return accounts.back();
}

std::size_t Residency::Impl::budget(const Account& one) const {
  if (device_limit != 0) return device_limit;
  return one.total != 0 ? one.total / 5 * 4 : SIZE_MAX;
}

void Residency::Impl::drop(Cached& entry, Copies::iterator copy, Evicted& out) {
  for (Account& one : accounts) {
    if (one.device == copy->device) one.used -= copy->bytes;
  }
  out.copies.splice(out.copies.end(), entry.copies, copy);
}

template <typename Which>
void Residency::Impl::drop_idle(const Which& which, Evicted& out) {
  drop_holders();
  for (Cached& entry : entries) {
    for (auto at = entry.copies.begin(); at != entry.copies.end();) {
      const auto copy = at++;
      if (copy->place != Place::kShared && copy->idle() && which(*copy)) drop(entry, copy, out);
    }
  }
  remove_empty(out);
}

bool Residency::Impl::shrink(Account& one, std::size_t target, std::uint64_t before,
                             Shortfall shortfall, Evicted& out) {
  if (one.used <= target) return true;
  drop_holders();
  struct Idle {
    std::uint64_t used_at;
    Cached* entry;
    Copies::iterator copy;
  };
  std::vector<Idle> idle;
  std::size_t idle_bytes = 0;
  for (Cached& entry : entries) {
    const auto copy = entry.copy_on(*one.device);
    if (copy == entry.copies.end() || copy->held() == 0 || !copy->idle()) continue;
    if (copy->used_at >= before) continue;
    idle.push_back({copy->used_at, &entry, copy});
    idle_bytes += copy->bytes;
  }
  if (one.used - idle_bytes > target && shortfall == Shortfall::kNone) return false;
  std::sort(idle.begin(), idle.end(),
            [](const Idle& a, const Idle& b) { return a.used_at < b.used_at; });
  for (const Idle& candidate : idle) {
    if (one.used <= target) break;
    drop(*candidate.entry, candidate.copy, out);
  }
  remove_empty(out);
  return one.used <= target;
}

// Makes one copy. Its place in the cache is taken first, so that other threads wait for it
// rather than make their own.
class Residency::Impl::CopyMaker {
 public:
  CopyMaker(Residency& cache, Impl& impl, compute::Device& device,
            const std::shared_ptr<const ResidentVectors>& vectors, Extent extent)
      : cache_(cache),
        impl_(impl),
        device_(device),
        vectors_(vectors),
        all_(vectors->size()),
        wanted_(vectors->size(extent)),
        held_(wanted_) {}

  // The copy that there is, once it is made. Null: there is none, and it is this one's turn.
  std::shared_ptr<const compute::Buffer> find(const CacheKey& key) {
    Evicted evicted;
    std::unique_lock lock(impl_.mutex);
    account_ = &impl_.account_for(device_, lock);
    const auto copy = settled_copy(key, lock);
    if (!cached_) {
      held_ = all_;  // nobody would find what is read in place
      return nullptr;
    }
    if (copy != entry_->copies.end()) {
      if (!is_to_be_replaced(*copy, evicted)) {
        copy->used_at = ++impl_.clock;
        held_ = copy->held();
        return copy->buffer;
      }
      impl_.drop(*entry_, copy, evicted);
    }
    maps_ = account_->maps;
    held_ = most_to_hold(evicted);
    twin_ = copy_elsewhere();
    entry_->copies.emplace_back(&device_, Place::kMaking, held_);
    copy_ = std::prev(entry_->copies.end());
    account_->used += copy_->bytes;
    return nullptr;
  }

  // REQUIRES: find() returned null.
  Status make(std::shared_ptr<const compute::Buffer>* out) {
    Status status;
    try {
      status = upload_or_map(*out);
    } catch (...) {
      finish(nullptr);
      throw;
    }
    if (!status.ok()) out->reset();
    finish(*out);
    return status;
  }

  // Says whether the device reads in place what it was to hold.
  bool lacks_some() const { return held_ < wanted_; }

 private:
  // Waits while somebody else makes it.
  Copies::iterator settled_copy(const CacheKey& key, std::unique_lock<std::mutex>& lock) {
    while (true) {
      entry_ = impl_.touch({key, Kind::kVectors});
      cached_ = entry_ != impl_.entries.end();
      if (!cached_) return {};
      const auto copy = entry_->copy_on(device_);
      if (copy == entry_->copies.end() || copy->place != Place::kMaking) return copy;
      constexpr std::chrono::milliseconds kPause{5};
      impl_.made.wait_for(lock, kPause);
      lock.unlock();
      poll_interruption();
      lock.lock();
    }
  }

  // What another device holds may be copied from there.
  std::shared_ptr<const compute::Buffer> copy_elsewhere() const {
    for (const DeviceCopy& copy : entry_->copies) {
      if (copy.place == Place::kResident) return copy.buffer;
    }
    return nullptr;
  }

  bool make_room(std::size_t bytes, std::uint64_t before, Evicted& evicted) {
    const std::size_t most = impl_.budget(*account_);
    return bytes <= most &&
           impl_.shrink(*account_, most - bytes, before, Shortfall::kNone, evicted);
  }

  // What is wanted, or what is hot of it, or nothing: as there is room.
  std::size_t most_to_hold(Evicted& evicted) {
    if (make_room(wanted_, UINT64_MAX, evicted)) return wanted_;
    const std::size_t hot = vectors_->hot;
    return maps_ && hot < wanted_ && make_room(hot, UINT64_MAX, evicted) ? hot : 0;
  }

  bool is_to_be_replaced(const DeviceCopy& copy, Evicted& evicted) {
    if (copy.held() < wanted_) return room_has_come(copy, evicted);
    if (copy.held() == wanted_) return false;
    impl_.drop_holders();
    return copy.idle();
  }

  // Whether what is read in place can be copied now: for that, only copies go that were not used
  // since. Two tables that are searched in turn would else push each other out for ever.
  bool room_has_come(const DeviceCopy& copy, Evicted& evicted) {
    constexpr std::chrono::milliseconds kPause{100};
    const auto now = std::chrono::steady_clock::now();
    if (!copy.idle() || now < account_->crowded_until) return false;
    if (make_room(wanted_ - copy.held(), copy.used_at, evicted)) return true;
    account_->crowded_until = now + kPause;
    return false;
  }

  Status upload_or_map(std::shared_ptr<const compute::Buffer>& out) {
    Status status{ErrorKind::kNoMemory,
                  "no room for " + std::to_string(wanted_) + " bytes on " + account_->name};
    if (held_ == all_) {
      status = copy(out);
      if (status.kind != ErrorKind::kNoMemory) return status;
      note_lack();
      held_ = vectors_->hot;
    }
    if (!cached_ || !maps_) return status;
    Status in_place = map(out);
    if (in_place.ok() || in_place.kind == ErrorKind::kDevice) return in_place;
    if (in_place.kind == ErrorKind::kLimit) return status;  // of other bytes it may be possible
    const std::lock_guard lock(impl_.mutex);
    account_->maps = false;
    return status;
  }

  // A device that has less room than it says would have copies made in vain by each search.
  void note_lack() {
    constexpr std::chrono::seconds kPause{10};
    const std::lock_guard lock(impl_.mutex);
    account_->crowded_until = std::chrono::steady_clock::now() + kPause;
  }

  // What is not held is read in place; or everything, where the device has less room than it says.
  Status map(std::shared_ptr<const compute::Buffer>& out) {
    Status status = copy(out);
    if (status.kind != ErrorKind::kNoMemory || held_ == 0) return status;
    note_lack();
    held_ = 0;
    return copy(out);
  }

  // Of what is held. Where the device lacks memory, other copies make room.
  Status copy(std::shared_ptr<const compute::Buffer>& out) {
    Status status = copy_now(out);
    if (status.kind != ErrorKind::kNoMemory || held_ == 0) return status;
    cache_.release_oldest(device_);
    return copy_now(out);
  }
  Status copy_now(std::shared_ptr<const compute::Buffer>& out) {
    compute::HostBytes bytes = host_bytes(vectors_, shares_);
    bytes.twin = twin_;
    return held_ == all_ ? device_.make_resident(std::move(bytes), &out)
                         : device_.map_host(std::move(bytes), held_, &out);
  }

  // The entry is still there: whoever asked holds the vectors, so it is in use.
  void finish(const std::shared_ptr<const compute::Buffer>& buffer) {
    if (!cached_) return;
    const std::lock_guard lock(impl_.mutex);
    const std::size_t held = buffer == nullptr ? 0 : held_;
    account_->used -= copy_->bytes - held;
    copy_->bytes = held;
    if (buffer == nullptr) {
      entry_->copies.erase(copy_);
    } else {
      copy_->place = held == all_ ? Place::kResident : held == 0 ? Place::kMapped : Place::kPartial;
      copy_->used_at = ++impl_.clock;
      copy_->buffer = buffer;
      copy_->host = shares_;
    }
    impl_.made.notify_all();
  }

  Residency& cache_;
  Impl& impl_;
  compute::Device& device_;
  const std::shared_ptr<const ResidentVectors>& vectors_;
  const std::size_t all_, wanted_;
  std::size_t held_;
  Account* account_ = nullptr;
  List::iterator entry_;
  Copies::iterator copy_;
  std::weak_ptr<const void> shares_;
  std::shared_ptr<const compute::Buffer> twin_;
  bool cached_ = false;
  bool maps_ = false;
};

// Makes a copy for a device in host memory: a copy is a name for the entry's own bytes.
Status Residency::Impl::share(compute::Device& device, const CacheKey& key,
                              const std::shared_ptr<const ResidentVectors>& vectors,
                              std::shared_ptr<const compute::Buffer>* out) {
  const auto find = [&](List::iterator& entry) {
    entry = touch({key, Kind::kVectors});
    if (entry == entries.end()) return false;
    const auto copy = entry->copy_on(device);
    if (copy == entry->copies.end()) return false;
    *out = copy->buffer;
    return true;
  };
  List::iterator entry;
  {
    const std::lock_guard lock(mutex);
    if (find(entry)) return {};
  }
  std::weak_ptr<const void> shares;
  std::shared_ptr<const compute::Buffer> fresh;
  if (Status status = device.make_resident(host_bytes(vectors, shares), &fresh); !status.ok()) {
    return status;
  }
  const std::lock_guard lock(mutex);
  if (find(entry)) return {};
  *out = fresh;
  if (entry == entries.end()) return {};  // evicted meanwhile: used once, then gone
  DeviceCopy& copy = entry->copies.emplace_back(&device, Place::kShared, 0);
  copy.buffer = std::move(fresh);
  copy.host = std::move(shares);
  return {};
}

Status Residency::buffer(compute::Device& device, const CacheKey& key,
                         const std::shared_ptr<const ResidentVectors>& vectors,
                         std::shared_ptr<const compute::Buffer>* out, bool* in_place,
                         Extent extent) {
  if (in_place != nullptr) *in_place = false;
  if (key.is_null()) {
    return device.make_resident({vectors, vectors->block.vectors.data, vectors->size()}, out);
  }
  if (!device.own_memory()) return impl_->share(device, key, vectors, out);
  Impl::CopyMaker maker(*this, *impl_, device, vectors, extent);
  *out = maker.find(key);
  const Status status = *out != nullptr ? Status{} : maker.make(out);
  if (in_place != nullptr) *in_place = maker.lacks_some();
  return status;
}

Residency::CopyOnDevice Residency::copy_on(compute::Device& device, const CacheKey& key) {
  const std::lock_guard lock(impl_->mutex);
  const auto entry = impl_->touch({key, Impl::Kind::kVectors});
  if (entry == impl_->entries.end()) return {};
  const auto copy = entry->copy_on(device);
  if (copy == entry->copies.end() || copy->place != Place::kResident) return {};
  const auto& head = entry->value == nullptr
                         ? entry->head
                         : static_cast<const ResidentVectors*>(entry->value.get())->head;
  if (head == nullptr) return {};
  copy->used_at = ++impl_->clock;
  return {copy->buffer, head};
}

void Residency::set_device_limit(std::size_t bytes) {
  Impl::Evicted evicted;
  const std::lock_guard lock(impl_->mutex);
  impl_->device_limit = bytes;
  const auto reads_in_place = [](const DeviceCopy& copy) {
    return copy.place == Place::kMapped || copy.place == Place::kPartial;
  };
  impl_->drop_idle(reads_in_place, evicted);
  for (Impl::Account& account : impl_->accounts) {
    account.maps = true;
    account.crowded_until = {};
    impl_->shrink(account, impl_->budget(account), UINT64_MAX, Impl::Shortfall::kAll, evicted);
  }
}

std::size_t Residency::device_limit() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->device_limit;
}

Residency::Holding Residency::holding(compute::Device& device, std::span<const Want> wanted,
                                      std::span<Presence> has) {
  std::unique_lock lock(impl_->mutex);
  const Impl::Account& account = impl_->account_for(device, lock);
  Holding holding{impl_->budget(account), account.used, 0, account.maps};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto found = impl_->index.find({wanted[i].key, Impl::Kind::kVectors});
    Presence present = Presence::kNone;
    if (found != impl_->index.end()) {
      const auto copy = found->second->copy_on(device);
      if (copy != found->second->copies.end() && copy->place != Place::kMaking) {
        present = copy->place == Place::kMapped ? Presence::kInPlace : Presence::kHeld;
      }
    }
    if (present != Presence::kNone) holding.present += wanted[i].bytes;
    if (!has.empty()) has[i] = present;
  }
  return holding;
}

void Residency::release_idle(const compute::Device& device) {
  Impl::Evicted evicted;
  const std::lock_guard lock(impl_->mutex);
  impl_->drop_idle([&](const DeviceCopy& copy) { return copy.device == &device; }, evicted);
}

void Residency::release_oldest(const compute::Device& device) {
  Impl::Evicted evicted;
  const std::lock_guard lock(impl_->mutex);
  Impl::Account* const account = impl_->account_of(device);
  if (account == nullptr) return;
  impl_->shrink(*account, account->used / 2, UINT64_MAX, Impl::Shortfall::kAll, evicted);
}

std::vector<std::pair<DeviceCopy*, std::size_t>> Residency::Impl::copies_of(
    std::span<const Growth> growth) {
  std::unordered_map<const compute::Buffer*, std::size_t> wanted;
  for (const Growth& one : growth) wanted.emplace(one.buffer, one.bytes);
  std::vector<std::pair<DeviceCopy*, std::size_t>> found;
  for (Cached& entry : entries) {
    for (DeviceCopy& copy : entry.copies) {
      const auto at = wanted.find(copy.buffer.get());
      if (at != wanted.end()) found.emplace_back(&copy, at->second);
    }
  }
  return found;
}

bool Residency::reserve(std::span<const Growth> growth) noexcept {
  const auto reserve_all = [&] {
    Impl::Evicted evicted;
    const std::lock_guard lock(impl_->mutex);
    const auto copies = impl_->copies_of(growth);
    std::size_t more = 0;
    for (const auto& [copy, bytes] : copies) more += bytes - std::min(bytes, copy->beside);
    if (more == 0) return true;
    // Copies that are searched are in use, and stay.
    Impl::Account& account = *impl_->account_of(*copies.front().first->device);
    const std::size_t most = impl_->budget(account);
    if (more > most || !impl_->shrink(account, most - more, UINT64_MAX, Impl::Shortfall::kNone,
                                      evicted)) {
      return false;
    }
    for (const auto& [copy, bytes] : copies) {
      const std::size_t grown = bytes - std::min(bytes, copy->beside);
      copy->beside += grown;
      copy->bytes += grown;
      account.used += grown;
    }
    return true;
  };
  try {
    return reserve_all();
  } catch (...) {
    return false;  // no memory for the list of them
  }
}

void Residency::give_back(std::span<const Growth> growth) noexcept {
  try {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& [copy, bytes] : impl_->copies_of(growth)) {
      impl_->account_of(*copy->device)->used -= copy->beside;
      copy->bytes -= copy->beside;
      copy->beside = 0;
    }
  } catch (...) {  // it stays reserved until the copies go
  }
}

std::vector<Residency::Entry> Residency::entries() {
  const std::lock_guard lock(impl_->mutex);
  impl_->drop_holders();
  std::vector<Entry> out;
  for (const Impl::Cached& entry : impl_->entries) {
    if (entry.value != nullptr) {
      out.push_back({entry.owner, "cpu", entry.bytes, entry.in_use()});
    }
    for (const DeviceCopy& copy : entry.copies) {
      if (copy.place == Place::kShared || copy.made_after != forks()) continue;
      const char* state = copy.place == Place::kResident  ? "resident"
                          : copy.place == Place::kPartial ? "partial"
                          : copy.place == Place::kMapped  ? "mapped"
                                                          : "uploading";
      out.push_back({entry.owner, impl_->account_of(*copy.device)->name, copy.bytes, !copy.idle(),
                     state});
    }
  }
  return out;
}

}  // namespace warplite::engine

#include "core/bytes.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "core/system.h"

namespace warplite {
namespace {

constexpr std::size_t kLarge = std::size_t{512} << 10;  // smaller blocks come from the heap
constexpr std::size_t kSlab = std::size_t{64} << 20;
// Where a slab's last block ends. A huge page would be there as a whole for what that has of it.
constexpr std::size_t kTail = 2 * os::kHugePage;
constexpr std::size_t kUnit = 64;  // in which slabs are shared out
// What small pages hold of a block that fills little by little.
constexpr std::size_t kBeginning = os::kHugePage;
constexpr std::align_val_t kAlignment{kUnit};

std::size_t round_up(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

// First fit among the free ranges of all slabs. Blocks are few (thousands) and large, so
// that a walk costs nothing beside filling one.
class Slabs {
 public:
  std::byte* take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    for (auto& [begin, slab] : slabs_) {
      for (auto range = slab.free.begin(); range != slab.free.end(); ++range) {
        if (range->second >= size) return cut(slab, range, size);
      }
    }
    const std::size_t room = size > kSlab ? round_up(size, os::kHugePage) : kSlab;
    std::byte* begin = os::map_huge_pages(room, kTail);
    if (begin == nullptr) return nullptr;
    try {
      Slab& slab = slabs_[begin];
      slab.size = room;
      return cut(slab, slab.free.emplace(begin, room).first, size);
    } catch (...) {
      slabs_.erase(begin);
      os::unmap(begin, room);
      throw;
    }
  }

  void give(std::byte* memory, std::size_t size) noexcept {
    const std::lock_guard lock(mutex_);
    const auto at = std::prev(slabs_.upper_bound(memory));
    Slab& slab = at->second;
    slab.used -= size;
    if (reusers_ == 0) {
      if (slab.used == 0) return unmap(at);
    }
    try {
      const auto [begin, room] = *insert(slab, memory, size);
      if (reusers_ != 0) return;
      // With what is free beside it: neighbours that are freed one by one share a page.
      std::byte* const first = std::max(begin, memory - os::kPage);
      std::byte* const end = std::min(begin + room, memory + size + os::kPage);
      discard(first, static_cast<std::size_t>(end - first));
    } catch (const std::bad_alloc&) {
      // The range is not used again; the slab goes with its last block.
      if (reusers_ == 0) discard(memory, size);
    }
  }

  void begin_reuse() {
    const std::lock_guard lock(mutex_);
    ++reusers_;
  }
  void end_reuse() noexcept {
    const std::lock_guard lock(mutex_);
    if (--reusers_ != 0) return;
    for (auto at = slabs_.begin(); at != slabs_.end();) {
      const auto slab = at++;
      for (const auto& [begin, size] : slab->second.free) {
        if (slab->second.used != 0) discard(begin, size);
      }
      if (slab->second.used == 0) unmap(slab);
    }
  }

 private:
  using Ranges = std::map<std::byte*, std::size_t>;
  struct Slab {
    std::size_t size = 0;
    std::size_t used = 0;
    Ranges free;  // disjoint, never adjacent
  };

  static std::byte* cut(Slab& slab, Ranges::iterator range, std::size_t size) {
    const auto [begin, room] = *range;
    if (room > size) slab.free.emplace(begin + size, room - size);
    slab.free.erase(range);
    slab.used += size;
    return begin;
  }

  // Gives back the pages that lie in this range as a whole.
  static void discard(std::byte* begin, std::size_t size) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    const std::size_t before = round_up(address, os::kPage) - address;
    if (size < before + os::kPage) return;
    os::discard(begin + before, (size - before) / os::kPage * os::kPage);
  }

  // Returns the free range that it is now in.
  static Ranges::iterator insert(Slab& slab, std::byte* begin, std::size_t size) {
    auto [at, added] = slab.free.emplace(begin, size);
    if (const auto next = std::next(at); next != slab.free.end() && begin + size == next->first) {
      at->second += next->second;
      slab.free.erase(next);
    }
    if (at == slab.free.begin()) return at;
    const auto before = std::prev(at);
    if (before->first + before->second != at->first) return at;
    before->second += at->second;
    slab.free.erase(at);
    return before;
  }

  void unmap(std::map<std::byte*, Slab>::iterator at) noexcept {
    os::unmap(at->first, at->second.size);
    slabs_.erase(at);
  }

  std::mutex mutex_;
  std::map<std::byte*, Slab> slabs_;  // by their first byte
  unsigned reusers_ = 0;              // of what is freed
};

// Pages of brief blocks that were freed, for those to come. Nobody waits: beside another thread, or
// in a child that was forked beside one, for good, pages are the system's.
class Kept {
 public:
  // Blocks of so many bytes lie in pages of so many: sizes that are alike share theirs.
  static std::size_t room_of(std::size_t size) {
    return round_up(size, std::max(os::kPage, std::bit_floor(size) / 4));
  }

  std::byte* take(std::size_t room) {
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
      const auto at = std::find_if(blocks_.rbegin(), blocks_.rend(),
                                   [room](const Block& block) { return block.room == room; });
      if (at != blocks_.rend()) return cut(std::prev(at.base())).memory;
    }
    std::byte* const memory = os::map_pages(room);
    if (memory != nullptr && room >= 2 * os::kHugePage) os::prefer_huge(memory, room, 0);
    return memory;
  }

  void give(std::byte* memory, std::size_t room) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return os::unmap(memory, room);
    // The newest are kept, whose sizes are the likeliest to come again.
    while (!blocks_.empty() && (blocks_.size() == kMost || bytes_ + room > kMostBytes)) {
      const Block oldest = cut(blocks_.begin());
      os::unmap(oldest.memory, oldest.room);
    }
    if (room > kMostBytes) return os::unmap(memory, room);
    blocks_.push_back({memory, room});
    bytes_ += room;
  }

 private:
  struct Block {
    std::byte* memory;
    std::size_t room;
  };
  using Blocks = std::vector<Block>;
  static constexpr std::size_t kMost = 16, kMostBytes = std::size_t{64} << 20;

  Block cut(Blocks::iterator at) {
    const Block block = *at;
    bytes_ -= block.room;
    blocks_.erase(at);
    return block;
  }

  std::mutex mutex_;
  Blocks blocks_ = reserved();  // the oldest first
  std::size_t bytes_ = 0;       // of all

  static Blocks reserved() {
    Blocks blocks;
    blocks.reserve(kMost);
    return blocks;
  }
};

// Never destroyed: blocks of static objects may be freed after them.
Slabs& slabs() {
  static Slabs* const all = new Slabs;
  return *all;
}
Kept& kept() {
  static Kept* const all = new Kept;
  return *all;
}

}  // namespace

Bytes::Reuse::Reuse() {
  slabs().begin_reuse();
}
Bytes::Reuse::~Reuse() {
  slabs().end_reuse();
}

std::byte* Bytes::allocate(std::size_t size, Fill fill) {
  std::byte* memory = nullptr;
  if (size < kLarge) {
    memory = static_cast<std::byte*>(::operator new(size, kAlignment, std::nothrow));
  } else if (fill == Fill::kAtOnce) {
    memory = slabs().take(round_up(size, kUnit));
  } else if (fill == Fill::kBrief) {
    memory = kept().take(Kept::room_of(size));
  } else {
    const std::size_t room = round_up(size, os::kPage);
    memory = os::map_pages(room);
    if (memory != nullptr) os::prefer_huge(memory, room, kBeginning);
  }
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void Bytes::release(std::byte* memory, std::size_t size, Fill fill) {
  if (size < kLarge) {
    ::operator delete(memory, kAlignment);
  } else if (fill == Fill::kAtOnce) {
    slabs().give(memory, round_up(size, kUnit));
  } else if (fill == Fill::kBrief) {
    kept().give(memory, Kept::room_of(size));
  } else {
    os::unmap(memory, round_up(size, os::kPage));
  }
}

}  // namespace warplite

// Sets of blocks that a device holds for the searches of one view, or of the segments that several share,
// found once and then used by one search after the other.
// Threads: as the view's connection. Ownership: the cache holds a set until it has to evict
// something or the views go; a search holds it while it runs.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "compute/device.h"
#include "core/process/process.h"
#include "engine/residency/residency.h"

namespace warplite::engine {

class HeldSet : public Residency::Holder {
 public:
  explicit HeldSet(compute::Device& device) : Holder(device), made_after_(forks()) {}
  // In a forked child the driver that made the buffers does not work.
  ~HeldSet() override {
    if (made_after_ == forks() || !device().own_memory()) return;
    static_cast<void>(new (std::nothrow) auto(std::move(buffers_)));
  }

  // False when something is read in place: the next search looks for room again.
  bool lasting() const { return lasting_; }

 protected:
  std::vector<std::shared_ptr<const compute::Buffer>> buffers_;
  bool lasting_ = true;

 private:
  const unsigned made_after_;  // forks
};

// The sets of one kind. It belongs to a view, or to its segments.
template <class Set>
class HeldSets {
 public:
  HeldSets() = default;
  ~HeldSets() {
    for (const Known& known : known_) {
      if (const auto set = known.set.lock()) Residency::instance().release(*set);
    }
  }

  // Returns a set that `suits`. Null: there is none, or the cache had to let it go.
  template <class Suits>
  std::shared_ptr<Set> find(std::size_t column, const compute::Device& device,
                            const Suits& suits) const {
    for (const Known& known : known_) {
      if (known.column != column || known.device != &device) continue;
      auto set = known.set.lock();
      if (set != nullptr && suits(*set)) return set;
    }
    return nullptr;
  }
  std::shared_ptr<Set> find(std::size_t column, const compute::Device& device) const {
    return find(column, device, [](const Set&) { return true; });
  }
  void add(std::size_t column, const std::shared_ptr<Set>& set) {
    std::erase_if(known_, [](const Known& known) { return known.set.expired(); });
    known_.push_back({column, &set->device(), set});
    Residency::instance().keep(set);
  }

 private:
  struct Known {
    std::size_t column;
    const compute::Device* device;
    std::weak_ptr<Set> set;
  };
  std::vector<Known> known_;
};

}  // namespace warplite::engine

#include "engine/residency/readiness.h"

#include <utility>

namespace warplite::engine {

bool nearly_all(std::size_t lacking, std::size_t bytes) {
  constexpr std::size_t kSmall = std::size_t{64} << 20;
  return lacking <= bytes / 4 || lacking < kSmall;
}

namespace {

// What a device has of some items.
class Look {
 public:
  Look(compute::Device& device, std::vector<Uploader::Item> items)
      : device_(device), items_(std::move(items)), has_(items_.size()) {
    std::vector<Residency::Want> wants;
    for (const Uploader::Item& item : items_) {
      wants.push_back({item.key, item.bytes()});
      bytes_ += wants.back().bytes;
    }
    holding_ = Residency::instance().holding(device, wants, has_);
  }

  bool has_room() const { return holding_.budget >= bytes_; }
  bool maps() const { return holding_.maps; }
  bool has_nearly_all() const { return nearly_all(bytes_ - holding_.present, bytes_); }
  // Copies what it lacks in the background.
  void request() {
    std::vector<Uploader::Item> missing;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (has_[i] == Residency::Presence::kNone) missing.push_back(std::move(items_[i]));
    }
    Uploader::instance().request(device_, std::move(missing));
  }

 private:
  compute::Device& device_;
  std::vector<Uploader::Item> items_;
  std::vector<Residency::Presence> has_;  // by item
  std::size_t bytes_ = 0;
  Residency::Holding holding_;
};

}  // namespace

bool ready(compute::Device& device, std::vector<Uploader::Item> items) {
  if (!device.own_memory()) return true;
  Look look(device, std::move(items));
  if (!look.has_room() && !look.maps()) return false;
  if (look.has_nearly_all()) return true;
  look.request();
  return false;
}

bool holds(compute::Device& device, std::vector<Uploader::Item> items, bool at_once) {
  if (!device.own_memory()) return true;
  Look look(device, std::move(items));
  if (!look.has_room()) return false;
  if (at_once || look.has_nearly_all()) return true;
  look.request();
  return false;
}

}  // namespace warplite::engine

#include "engine/search/multi_device.h"

#include <algorithm>
#include <utility>

#include "engine/residency/readiness.h"
#include "engine/residency/residency.h"
#include "engine/residency/uploader.h"

namespace warplite::engine {
namespace {

using Presence = Residency::Presence;

// A device, and what it has of the blocks.
struct Candidacy {
  compute::Device* device;
  Residency::Holding holding;
  std::vector<Presence> has;  // by block
  std::size_t assigned = 0;   // bytes that it will get
};

class Planner {
 public:
  Planner(std::span<compute::Device* const> devices, std::span<const SearchBlock* const> blocks)
      : blocks_(blocks) {
    for (const SearchBlock* block : blocks) total_ += block->cached() ? block->bytes() : 0;
    for (compute::Device* device : devices) candidates_.push_back(look_at(*device));
  }

  SharePlan plan() {
    SharePlan plan;
    if (candidates_.size() == 1 || candidates_[0].holding.budget >= total_) {
      plan.shares.push_back(everything_on(candidates_[0]));
      plan.in_memory = candidates_[0].holding.budget >= total_;
      plan.fits = plan.in_memory || candidates_[0].holding.maps;
      return plan;
    }
    plan.shares = spread();
    plan.in_memory = std::none_of(candidates_.begin(), candidates_.end(), [](const Candidacy& one) {
      return one.assigned > one.holding.budget;
    });
    plan.fits = std::any_of(candidates_.begin(), candidates_.end(),
                            [](const Candidacy& one) { return one.holding.maps; }) ||
                budgets() >= total_;
    return plan;
  }

 private:
  Candidacy look_at(compute::Device& device) const {
    Candidacy candidate{&device, {}, std::vector<Presence>(blocks_.size(), Presence::kHeld)};
    if (!device.own_memory()) {
      candidate.holding.budget = SIZE_MAX;
      return candidate;
    }
    std::vector<Residency::Want> wanted;
    for (const SearchBlock* block : blocks_) {
      if (block->cached()) wanted.push_back({block->vectors.key, block->bytes()});
    }
    std::vector<Presence> has(wanted.size());
    candidate.holding = Residency::instance().holding(device, wanted, has);
    std::size_t next = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i]->cached()) candidate.has[i] = has[next++];
    }
    return candidate;
  }

  std::size_t budgets() const {
    std::size_t sum = 0;
    for (const Candidacy& one : candidates_) {
      sum = one.holding.budget > SIZE_MAX - sum ? SIZE_MAX : sum + one.holding.budget;
    }
    return sum;
  }

  void give(std::size_t i, Candidacy& to, Share& share) const {
    const SearchBlock& block = *blocks_[i];
    share.blocks.push_back(&block);
    share.bytes += block.bytes();
    to.assigned += block.bytes();
    if (to.has[i] != Presence::kNone) return;
    share.missing.push_back(&block);
    share.missing_bytes += block.bytes();
  }

  Share everything_on(Candidacy& candidate) const {
    Share share{.device = candidate.device};
    for (std::size_t i = 0; i < blocks_.size(); ++i) give(i, candidate, share);
    return share;
  }

  // Each block to the device that holds it, or else to the one with most room; where none has any, to one that
  // reads it in place already.
  std::vector<Share> spread() {
    std::vector<Share> shares;
    for (const Candidacy& one : candidates_) {
      shares.push_back({.device = one.device});
    }
    const auto first_with = [&](std::size_t i, Presence presence) {
      return std::find_if(candidates_.begin(), candidates_.end(), [&](const Candidacy& one) {
        return blocks_[i]->cached() && one.has[i] == presence;
      });
    };
    const auto place = [&](std::size_t i, std::vector<Candidacy>::iterator at) {
      give(i, *at, shares[static_cast<std::size_t>(at - candidates_.begin())]);
    };
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const auto at = first_with(i, Presence::kHeld);
      if (at == candidates_.end()) {
        rest.push_back(i);
      } else {
        place(i, at);
      }
    }
    for (const std::size_t i : rest) {
      const auto at = std::max_element(candidates_.begin(), candidates_.end(), has_less_room);
      const auto mapping = first_with(i, Presence::kInPlace);
      place(i, room(*at) < blocks_[i]->bytes() && mapping != candidates_.end() ? mapping : at);
    }
    std::erase_if(shares, [](const Share& share) { return share.blocks.empty(); });
    return shares;
  }

  static std::size_t room(const Candidacy& one) {
    return one.assigned < one.holding.budget ? one.holding.budget - one.assigned : 0;
  }
  static bool has_less_room(const Candidacy& a, const Candidacy& b) { return room(a) < room(b); }

  std::span<const SearchBlock* const> blocks_;
  std::size_t total_ = 0;  // bytes that devices keep
  std::vector<Candidacy> candidates_;
};

}  // namespace

bool Share::ready() const { return nearly_all(missing_bytes, bytes); }

void Share::request() const {
  std::vector<Uploader::Item> items;
  for (const SearchBlock* block : missing) items.push_back({block->vectors.key, block->vectors.resident});
  Uploader::instance().request(*device, std::move(items));
}

SharePlan plan_shares(std::span<compute::Device* const> devices,
                      std::span<const SearchBlock* const> blocks) {
  return Planner(devices, blocks).plan();
}

}  // namespace warplite::engine

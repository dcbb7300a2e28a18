// Outcomes of searches that compare every row: the nearest of each query, and all within a range.
// Threads: as any value. Ownership: an outcome borrows the index.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/search/outcome.h"
#include "index/index.h"

namespace warplite::engine {

class NearestOutcome : public Outcome {
 public:
  NearestOutcome(const index::Index& index, compute::HitTable best)
      : index_(index), best_(std::move(best)) {}

  compute::HitTable take() { return std::move(best_); }

  Status add(compute::Device& device, const compute::Workload& work) override {
    return index_.nearest(device, work, best_);
  }
  void clear() override { best_ = compute::HitTable(best_.queries(), best_.k()); }
  void for_each(const std::function<void(Hit&)>& change) override {
    for (std::size_t q = 0; q < best_.queries(); ++q) best_.row(q).for_each(change);
  }
  std::unique_ptr<Outcome> share(std::size_t queries) const override {
    return std::make_unique<NearestOutcome>(index_, compute::HitTable(queries, best_.k()));
  }
  std::unique_ptr<Outcome> slice(std::size_t first, std::size_t queries) override {
    return std::make_unique<NearestOutcome>(index_, best_.slice(first, queries));
  }
  void merge(Outcome& share, std::size_t first) override {
    best_.merge(std::move(static_cast<NearestOutcome&>(share).best_), first);
  }

 private:
  const index::Index& index_;
  compute::HitTable best_;
};

class WithinOutcome : public Outcome {
 public:
  WithinOutcome(const index::Index& index, std::size_t queries) : index_(index), hits_(queries) {}

  compute::HitLists take() { return std::move(hits_); }

  Status add(compute::Device& device, const compute::Workload& work) override {
    return index_.within(device, work, hits_);
  }
  void clear() override {
    for (std::vector<Hit>& hits : hits_) hits.clear();
  }
  void for_each(const std::function<void(Hit&)>& change) override {
    for (std::vector<Hit>& hits : hits_) std::for_each(hits.begin(), hits.end(), change);
  }
  std::unique_ptr<Outcome> share(std::size_t queries) const override {
    return std::make_unique<WithinOutcome>(index_, queries);
  }
  void merge(Outcome& share, std::size_t first) override {
    compute::HitLists& theirs = static_cast<WithinOutcome&>(share).hits_;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      std::vector<Hit>& mine = hits_[first + i];
      if (mine.empty()) {
        mine.swap(theirs[i]);
      } else {
        mine.insert(mine.end(), theirs[i].begin(), theirs[i].end());
      }
    }
  }

 private:
  const index::Index& index_;
  compute::HitLists hits_;
};

}  // namespace warplite::engine

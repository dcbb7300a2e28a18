// The items of match-count queries (match_count.h), made ready for testing rows: equal ones of several
// queries once.
// Threads: any, once everything was added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "compute/ops.h"
#include "engine/filter/predicate.h"

namespace warplite::engine {

struct RelationalItem {
  // A row matches when it passes one of these; the predicates of each are on one column.
  std::vector<Filter> any_of;
  std::uint32_t weight = 1;  // what a match counts
};
using RelationalQuery = std::vector<RelationalItem>;

// Asks whether to stop, on the thread that may ask.
class Poll {
 public:
  explicit Poll(compute::Cancellation* cancellation) : cancellation_(cancellation) {}
  // Throws Error{kInterrupted}.
  void operator()() const;

 private:
  compute::Cancellation* cancellation_;
  std::thread::id asker_ = std::this_thread::get_id();
};

// Items of several queries, equal ones once.
class ItemSet {
 public:
  // Predicates to test on a row, by item; the predicates of one item are on one column.
  using Compiled = std::vector<std::vector<CompiledPredicate>>;

  explicit ItemSet(const Layout& layout) : layout_(&layout) {}
  std::size_t size() const { return items_.size(); }
  // The number of an item; its weight does not matter.
  std::uint32_t add(const RelationalItem& item);
  const Compiled& operator[](std::size_t i) const { return items_[i]; }
  // Returns what is known, without looking at them, of the rows of a part that match an item.
  // `all_null`: whether every value of a column is NULL there.
  using AllNull = std::function<bool(std::size_t column)>;
  CompiledPredicate::Verdict judge(std::size_t item, const Part& part,
                                   const AllNull& all_null) const;

 private:
  const Layout* layout_;
  std::vector<Compiled> items_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace warplite::engine

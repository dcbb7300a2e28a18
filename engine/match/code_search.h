// Match counts over the codes of columns (column_codes.h), on the device that is worth it. To make
// the codes costs as much as to count some hundred queries without them (match_count.cc), so they
// are used where they are there, of columns with index=match, where the query insists on another device than
// the CPU, and once so many queries have been counted without them, in one batch or in many.
// Threads: as the view's connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/codes.h"
#include "compute/device.h"
#include "engine/match/column_codes.h"
#include "engine/match/match_count.h"
#include "engine/residency/attempt.h"

namespace warplite::engine {

class CodeSearch {
 public:
  // REQUIRES: everything outlives this. Throws Error{kUnsupported} when the device that was insisted
  // on cannot do it.
  CodeSearch(const View& view, const Selection& rows, std::span<const RelationalQuery> queries,
             const CountRequest& request);

  // Chooses the parts to count by codes. False: none.
  bool worthwhile();
  // Adds the best rows of the parts that it counts. REQUIRES: worthwhile() was true.
  void add_best(compute::HitTable& best);
  // Returns, by part, whether it is counted already. Parts that are not sealed are counted when the
  // CPU may not count them; parts in which all columns asked for are NULL never are.
  const std::vector<bool>& counted() const { return counted_; }

 private:
  struct NumberedItem {
    std::uint32_t item, weight;
  };
  // Parts that are counted together.
  struct Group {
    std::span<const std::uint32_t> parts;
    std::vector<ColumnCodes> codes;            // [parts][columns_]
    std::vector<std::uint32_t> begins;         // of queries
    std::vector<compute::CodeItem> items;
    std::vector<compute::CodeRange> ranges;    // [parts][items]
  };
  using Ranges = std::vector<std::vector<compute::CodeRange>>;  // [parts][items of items_]

  bool possible() const;
  bool makes_codes(std::size_t lacking) const;
  void check_possible() const;
  void find_parts();
  void count(std::span<const std::uint32_t> parts, compute::HitTable& best);
  Ranges translate(const Group& group) const;
  bool fill(Group& group, const Ranges& ranges) const;
  std::size_t most_items(const Group& group) const;
  Attempt attempt(const Group& group) const;
  Status count_on(compute::Device& device, const Group& group, compute::HitTable& best) const;

  const View& view_;
  const Selection& rows_;
  const CountRequest& request_;
  ItemSet items_;
  std::vector<std::vector<NumberedItem>> queries_;
  std::vector<std::size_t> columns_;         // that items are on
  std::vector<std::uint32_t> column_of_;     // index into columns_, by item
  std::size_t items_asked_ = 0;              // of all queries
  std::uint64_t most_ = 0;                   // that a row may count
  bool on_rowid_ = false;                    // an item is
  std::vector<std::uint32_t> parts_;         // those with selected rows that may have codes
  std::vector<bool> counted_;
  const bool excludes_host_;                 // the CPU may count nothing
};

}  // namespace warplite::engine

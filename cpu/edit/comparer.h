// A thread's part in a search by edit distance: groups of texts against queries, and what is found.
// Threads: one.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/edit/distances.h"
#include "cpu/edit/gather.h"
#include "cpu/edit/kernels.h"
#include "cpu/edit/results.h"

namespace warplite::cpu {

// A query that is compared with some texts of a group.
struct EditVisit {
  std::uint32_t query;  // its place in the batch
  std::uint32_t group;
  std::uint32_t texts;  // a bit to a place
};

class EditComparer {
 public:
  EditComparer(const compute::EditWork& work, EditResults& results, ItemLoop& loop,
               unsigned thread)
      : work_(work), results_(results), loop_(loop), thread_(thread),
        kernels_(edit_kernels()), distances_(loop, thread) {}

  // Queries to come; the span tells whether they are the same.
  void load(std::span<const std::uint32_t> queries);
  // Groups to come are texts of this tile.
  void begin_tile(const EditTileView& view);

  // Compares a group with all queries that lengths do not rule out.
  void compare(const EditGroup& group);
  // Compares all texts of a group with some queries.
  void compare(const EditGroup& group, std::span<const EditVisit> visits);
  // Compares few texts of each of many groups with one query, put together.
  void compare_some(const compute::MetricTexts& texts, const std::uint16_t* rows,
                    std::span<const EditVisit> visits);
  // Measures only, and keeps no hits: to[query · stride + place] is the distance to each query.
  void measure(const EditGroup& group, std::size_t stride, std::uint16_t* to);

  // Asks whether to go on.
  void check() { loop_.check(thread_); }
  // Distances, of texts that take part.
  std::uint64_t evaluated() const { return evaluated_; }

 private:
  bool too_far(const EditGroup& group, const EditBatch::Query& query) const;
  std::uint32_t live(const EditGroup& group) const;
  void compare(const EditGroup& group, const EditBatch::Query& query, std::uint32_t texts);

  const compute::EditWork& work_;
  EditResults& results_;
  ItemLoop& loop_;
  const unsigned thread_;
  const EditKernels& kernels_;
  EditDistances distances_;
  EditGather gather_;
  std::span<const std::uint32_t> loaded_;
  const compute::EditTile* tile_ = nullptr;
  std::uint64_t evaluated_ = 0;
};

}  // namespace warplite::cpu

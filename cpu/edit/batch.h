// Queries of about one length that are compared with a group of texts one after another, so that
// where their characters occur in it is found once for all of them.
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/edit.h"
#include "cpu/runtime/item_loop.h"

namespace warplite::cpu {

// Columns of a query that are advanced at once, so that their masks and carries stay in a cache.
constexpr std::size_t kChunkColumns = 512;

// Queries in the order of their lengths, and which of them make a batch.
struct EditBatches {
  std::vector<std::uint32_t> order;   // numbers of queries
  std::vector<std::uint32_t> begins;  // of batches, in `order`; and the end

  EditBatches(const compute::EditWork& work, std::span<const std::uint32_t> queries);
  std::size_t size() const { return begins.size() - 1; }
  std::span<const std::uint32_t> queries(std::size_t batch) const {
    return std::span(order).subspan(begins[batch], begins[batch + 1] - begins[batch]);
  }
};

// Characters of a batch by numbers from 0 on.
class EditBatch {
 public:
  // Some columns of a query.
  struct Chunk {
    std::span<const std::uint32_t> columns;   // numbers of the characters
    std::span<const std::uint32_t> distinct;  // each of them once
  };
  struct Query {
    std::uint32_t number;  // of the work
    std::size_t length;
    std::size_t first_chunk, chunks;
  };

  // Replaces what it holds. Asks `loop` whether to go on.
  void load(const compute::EditWork& work, std::span<const std::uint32_t> queries, ItemLoop& loop,
            unsigned thread);
  // The same by one text, in whatever characters.
  void load(std::span<const std::uint32_t> text, ItemLoop& loop, unsigned thread);

  std::span<const Query> queries() const { return queries_; }
  Chunk chunk(std::size_t i) const {
    const Ends& from = ends_[i];
    const Ends& to = ends_[i + 1];
    return {std::span(columns_).subspan(from.columns, to.columns - from.columns),
            std::span(distinct_).subspan(from.distinct, to.distinct - from.distinct)};
  }
  // The characters, by number.
  std::span<const std::uint32_t> points() const { return points_; }
  // Returns the columns of all queries.
  std::size_t columns() const { return columns_.size(); }

 private:
  struct Ends {
    std::size_t columns, distinct;
  };
  struct Slot {
    std::uint32_t number = 0;  // more 1; 0: none yet
    std::uint32_t chunk = 0;   // the last that it was in, more 1
  };
  static constexpr std::uint32_t kPage = 256;
  static constexpr std::uint32_t kPages = 0x110000 / kPage;
  using Page = std::array<Slot, kPage>;

  void clear();
  void add_query(std::uint32_t number, std::span<const std::uint32_t> points, ItemLoop& loop,
                 unsigned thread);
  void add_chunk(std::span<const std::uint32_t> points);
  Slot& slot(std::uint32_t point);

  std::vector<Query> queries_;
  std::vector<std::uint32_t> columns_, distinct_, points_;
  std::vector<Ends> ends_{{0, 0}};  // of chunks, after those of none
  std::vector<std::unique_ptr<Page>> pages_ = std::vector<std::unique_ptr<Page>>(kPages);
};

}  // namespace warplite::cpu

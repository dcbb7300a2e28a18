// Codes of rows that a transaction has not flushed yet: as soon as a chunk is full, another thread
// codes it, while further rows come. What could not be made ahead is made when the chunk is
// flushed. Threads: as the connection.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "engine/table/pending.h"
#include "engine/training/coding.h"

namespace warplite::engine {

class CodingAhead {
 public:
  // Full chunks that stay pending when others are flushed, for which there is time until the next
  // flush.
  static constexpr std::size_t kMostLeft = 2;

  // Begins with the rows of the slot, if columns have models. Throws what reading those throws.
  // REQUIRES: slot.is_in_order(); the layout outlives this.
  void begin(const WriteContext& context, const Pending::Slot& slot);
  bool has(const Chunk& chunk) const;
  std::size_t size() const { return begun_.size(); }

  // Waits for codes of the chunk's rows, made by models of these stamps, and hands them over. Null:
  // there are none, they could not be made, or whoever waits was interrupted.
  std::optional<SegmentCodes> take(const Chunk& chunk, const std::vector<Stamp>& models,
                                   compute::Cancellation* cancellation) noexcept;
  // Ends what concerns none of these.
  void keep_only(const std::vector<Pending::Slot>& slots) noexcept;

 private:
  struct Begun {
    Begun(const WriteContext& context, std::shared_ptr<const Chunk> rows, const ColumnModels& by,
          std::size_t turn);

    const std::shared_ptr<const Chunk> chunk;
    const std::vector<Stamp> stamps;
    const ColumnModels models;
    Encoding codes;  // last: it ends before what it uses
  };
  std::list<Begun>::iterator find(const Chunk& chunk);

  std::list<Begun> begun_;
  std::size_t turn_ = 0;
};

}  // namespace warplite::engine

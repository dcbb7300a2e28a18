// Arguments and results of the operations a Device offers: what every device
// must do, checked by tests/conformance/device_conformance_test against tests/reference.
//
// Distances that are returned follow the canonical definition (reference.h):
// the same bits on every device, SIMD width and thread count. Faster arithmetic
// may only nominate candidates; what it nominates is re-scored canonically.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/distance.h"
#include "core/process/cache_key.h"
#include "core/topk.h"
#include "core/types.h"

namespace warplite::compute {

class Buffer;
class VectorMetricBuilder;
struct SearchCounters;

// Asked between tiles, at least every few milliseconds, and only on the thread
// that called the operation.
class Cancellation {
 public:
  virtual ~Cancellation() = default;
  virtual bool requested() = 0;
};

// A MemoryBudget limits what a device may keep beside the buffers it was given, so that the next
// search is faster.
// Threads: any, without locks of the device's own.
class MemoryBudget {
 public:
  struct Growth {
    const Buffer* buffer;  // which lives while this does
    std::size_t bytes;     // of the device's memory that belong to it from now on
  };
  virtual ~MemoryBudget() = default;
  // Makes room for all of it. False: for none.
  virtual bool reserve(std::span<const Growth> growth) noexcept = 0;
  // Gives back what was reserved and could not be had after all.
  virtual void give_back(std::span<const Growth> growth) noexcept = 0;
};

// Rows searched together: one segment's vectors, resident on the device.
// Everything but `vectors` is host memory and outlives the call.
struct Block {
  const Buffer* vectors = nullptr;  // `rows` dense vectors of the workload's type and dim
  const std::byte* host = nullptr;  // the same bytes in host memory; null: not at hand
  std::uint32_t rows = 0;
  std::uint32_t id = 0;                  // returned in Hit::block
  RowIdView rowids;                      // in any order, no duplicates among live rows
  const std::uint64_t* live = nullptr;   // one bit a row, rows that take part; null: all
  std::uint32_t live_rows = 0;           // bits set in `live`, or rows
  // Blocks of one name have the same vectors, whatever buffers they lie in; null: who knows.
  CacheKey name = {};
};

// Says how nearest() tells the k nearest rows from the rest; compute/policy/select_policy.h knows which is
// faster where. The result is the same.
enum class Select : std::uint8_t { kAuto, kDefault, kThreshold };

// A row of a workload: its block's index in Workload::blocks, and its position there.
struct SampleRow {
  std::uint32_t block, row;
};

// A search that a filter leaves this part of the rows, or more, may share a pass with those of other filters.
inline constexpr std::uint64_t kSharingPart = 6;

// What one query asks for itself, where those of several searches share a pass (devices/gatherer.h).
struct OwnTerms {
  DistanceRange range;
  // For each block of the workload the rows that take part for this query, a bit each; null: all of them.
  // They are among the block's own. Null: those of every block take part.
  const std::uint64_t* const* live = nullptr;
  std::uint64_t live_rows = 0;  // that take part
};

// A Workload is what nearest() and within() have in common.
struct Workload {
  Distance distance = Distance::kL2;
  MatrixView queries;  // host memory, same type and dim as the blocks
  std::span<const Block> blocks;
  DistanceRange range;  // hits outside are not returned
  // If has_after, only hits are returned that come after (after_distance, after_rowid) in the order
  // of results. A cursor that goes on uses it. REQUIRES: one query.
  bool has_after = false;
  double after_distance = 0;
  RowId after_rowid = 0;
  Cancellation* cancellation = nullptr;
  // Says by what a device may pass over rows (metric.h), if blocks have host bytes; null: nothing.
  const VectorMetricBuilder* metric = nullptr;
  SearchCounters* counters = nullptr;  // added to; null: nobody asks
  MemoryBudget* budget = nullptr;      // lives as long as the process; null: nothing is counted
  Select select = Select::kAuto;  // of nearest(); a wish that an index turns into a sample
  // Rows that take part, each once, by block and row. If there are any, a device may bound every
  // query's k-th distance by the k-th of these rows before it looks at the others, and drop what is
  // farther. It is to be fast for rows drawn at random, and right for any.
  std::span<const SampleRow> sample;
  // Stands for which rows take part: work of the same number and blocks has the same `live` in each, and a
  // number is not used again for other rows. 0: it stands for nothing. What a device makes of these rows it may keep for the next search.
  std::uint64_t filter = 0;
  // One for each query, or none. Then `range` holds all of theirs. REQUIRES: Device::takes_own_terms();
  // neither a sample nor has_after.
  std::span<const OwnTerms> own;

  const DistanceRange& range_of(std::size_t query) const {
    return own.empty() ? range : own[query].range;
  }
  bool admits(const Hit& hit, std::size_t query = 0) const {
    if (!range_of(query).contains(hit.distance)) return false;
    if (!has_after) return true;
    return hit.distance != after_distance ? hit.distance > after_distance
                                          : hit.rowid > after_rowid;
  }
};

// The k nearest of each query. Blocks may be searched in several calls: each
// call adds to what the table holds, and thresholds carry over.
class HitTable {
 public:
  HitTable(std::size_t queries, std::size_t k) : HitTable(queries, k, {}) {}
  // Each query has its own k; a device may find more for it.
  explicit HitTable(std::span<const std::size_t> ks)
      : HitTable(ks.size(), ks.empty() ? 0 : *std::max_element(ks.begin(), ks.end()), ks) {}

  std::size_t queries() const { return lent_.empty() ? own_.size() : lent_.size(); }
  std::size_t k() const { return k_; }  // the largest
  TopK& row(std::size_t query) { return rows()[query]; }
  // Nearest first.
  std::span<const Hit> sorted(std::size_t query) { return row(query).sorted(); }
  std::vector<Hit> list(std::size_t query) { return row(query).list(); }

  // A table of the queries from `first` on, whose rows lie in this one, which outlives it. Threads: one each for
  // slices that do not overlap.
  HitTable slice(std::size_t first, std::size_t count) {
    return HitTable(k_, rows().subspan(first, count));
  }

  // Adds what was found for the queries from `first` on. Of a slice of this they are here already.
  void merge(HitTable&& found, std::size_t first = 0) {
    const std::span<TopK> mine = rows(), theirs = found.rows();
    if (theirs.data() == mine.data() + first) return;
    const auto becomes = [](const TopK& row, const TopK& other) { return row.becomes(other); };
    const bool whole = lent_.empty() && found.lent_.empty();
    if (whole && std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), becomes)) {
      *this = std::move(found);
      return;
    }
    for (std::size_t i = 0; i < found.queries(); ++i) row(first + i).merge(std::move(found.row(i)));
  }

 private:
  // More than these are worth memory of their own, when they come.
  static constexpr std::size_t kMostTogether = 128;

  // `ks`: none where all have the same.
  HitTable(std::size_t queries, std::size_t k, std::span<const std::size_t> ks) : k_(k) {
    Hit* room = nullptr;
    if (k <= kMostTogether) {
      room_ = Bytes(queries * k * sizeof(Hit), Bytes::Fill::kBrief);
      room = reinterpret_cast<Hit*>(room_.data());
    }
    own_.reserve(queries);
    for (std::size_t i = 0; i < queries; ++i) {
      own_.emplace_back(ks.empty() ? k : ks[i], room != nullptr ? room + i * k : nullptr);
    }
  }
  HitTable(std::size_t k, std::span<TopK> lent) : k_(k), lent_(lent) {}

  std::span<TopK> rows() { return lent_.empty() ? std::span<TopK>(own_) : lent_; }

  std::size_t k_;
  Bytes room_;  // of all rows, so that many queries do not ask for memory one by one
  std::vector<TopK> own_;
  std::span<TopK> lent_;  // of a slice: rows of another table
};

// All hits within the range, of each query, in no particular order.
using HitLists = std::vector<std::vector<Hit>>;

}  // namespace warplite::compute

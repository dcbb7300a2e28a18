// The k nearest rows of many queries by threshold (th-heap §III–V), for k beyond what a thread
// block selects: tensor cores multiply the queries and a sample, and the k-th upper bound of a
// query becomes its limit. Then they multiply all rows, some tiles at a time; what is beyond the
// limit is dropped, what is left is compact, and its canonical distances go to the host, whose
// threads select with bounded min-max heaps while the GPU computes the next tiles. What the heaps
// know lowers the limits of the tiles after those.
// Right for every sample: tiles that nominate more rows of a query than there is room for are done
// again, in halves, for that query.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "core/min_max_heap.h"
#include "gpu/batch/batch_search.h"

namespace warplite::gpu {

class ThresholdSearch : BatchSearch {
 public:
  // Says whether it serves this work at all.
  static bool suits(const Gpu& gpu, const compute::Workload& work, std::size_t k,
                    const RowSet& rows);

  // `table` was uploaded on the lane.
  ThresholdSearch(const Gpu& gpu, Lane& lane, const compute::Workload& work, const RowSet& rows,
                  const RowTable& table, std::size_t k)
      : BatchSearch(gpu, lane, work, rows, table), k_(k) {}

  // Adds the nearest rows of every query, and returns the queries whose norms are beyond the
  // product. None: as BatchSearch. REQUIRES: best.k() is k.
  std::optional<std::vector<std::uint32_t>> nearest(compute::HitTable& best);

 private:
  using Queries = std::vector<std::uint32_t>;
  // A Turn holds what some tiles nominate, on the device and on its way to the host. Two of them
  // take turns.
  struct Turn {
    Nominees nominees;
    // Pinned: what the host reads, and what it tells the device.
    Candidate* candidates;
    std::uint32_t* found;
    double* farthest;
    std::uint32_t* chosen;
    std::uint32_t begin = 0, end = 0;  // the tiles; none: nothing is on its way
    Event done;
  };
  struct Group {
    Nominate work;
    Nominees sample;    // with room for all of its rows
    float* masked;      // limits of a part of the queries
    float* limits;      // pinned: as the sample left them
    Turn turns[2];
    std::vector<MinMaxHeap<Hit>> heaps;  // per query
    std::uint64_t taken = 0;             // rows that limits know of, about
  };

  void send_sample();
  std::uint32_t capacity() const;
  std::size_t pinned_bytes() const;  // per query

  void search_group(std::size_t first, std::size_t count, compute::HitTable& best, Queries& lost);
  void start(std::size_t first, std::size_t count, Group& group);
  void place(Group& group, std::size_t count);
  void bound(Group& group, std::size_t first, compute::HitTable& best);
  void search_tiles(Group& group);
  std::uint32_t next_tiles(const Group& group) const;
  void launch(Group& group, Turn& turn, std::uint32_t begin, std::uint32_t end,
              float* limits);
  void take(Group& group, Turn& turn, const Queries& queries);
  void do_again(Group& group, Turn& turn, std::uint32_t begin, std::uint32_t end,
                const Queries& queries);
  void wait(const Turn& turn);

  const std::size_t k_;
  CompactRows sample_;
  std::vector<RowTile> sample_tiles_;
  DeviceBytes device_sample_tiles_;
};

}  // namespace warplite::gpu

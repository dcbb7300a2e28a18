// The k nearest rows of many queries: tensor cores nominate (nominate.h), canonical distances
// decide. Exact, or the query is handed back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compute/ops.h"
#include "gpu/batch/compact.h"
#include "gpu/batch/nominate.h"
#include "gpu/batch/tile_lists.h"
#include "gpu/rows/row_set.h"
#include "gpu/runtime/groups.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

class BatchSearch {
 public:
  // Says whether it serves this work at all, and whether that takes less time than passes over the rows.
  static bool serves(const Gpu& gpu, const compute::Workload& work, std::size_t k);
  static bool suits(const Gpu& gpu, const compute::Workload& work, std::size_t k,
                    std::uint32_t rows);

  // Half-precision copies stay with the rows, counted; or this search alone has those that are lacking, for
  // rows that memory is short of.
  enum class Copies : std::uint8_t { kKept, kPassing };
  // Rows whose copies pass: so many at a time, so that they take half a gigabyte.
  static std::uint32_t passing_rows(std::uint32_t dim);

  // `table` was uploaded on the lane.
  BatchSearch(const Gpu& gpu, Lane& lane, const compute::Workload& work, const RowSet& rows,
              const RowTable& table, Copies copies = Copies::kKept)
      : gpu_(gpu), lane_(lane), work_(work), rows_(rows), table_(table), copies_(copies) {}
  // Waits for what reads the copies, which may go with this.
  ~BatchSearch();
  BatchSearch(const BatchSearch&) = delete;
  BatchSearch& operator=(const BatchSearch&) = delete;

  // Queries are no host's: `load(first, count, to)` launches what puts some of them at `to` on the device,
  // dense, on the lane's stream. REQUIRES: it outlives this; nearest_into() alone is called.
  using LoadQueries = std::function<void(std::size_t first, std::size_t count, std::byte* to)>;
  void load_queries_by(LoadQueries load) { load_queries_ = std::move(load); }

  // Adds the nearest rows of every query, and returns the queries for which it could not prove
  // them: too many rows within the error of the product, or values beyond its range. None: there is no
  // room for half-precision copies, and nothing was done.
  std::optional<std::vector<std::uint32_t>> nearest(compute::HitTable& best);
  // The same, left on the device: `room` candidates apart, nearest first; `found` as Rescore has
  // it. False: as above.
  bool nearest_into(std::size_t k, std::uint32_t room, Candidate* out, std::uint32_t* found);

 protected:
  // Makes the half-precision copies and lists the tiles; false when there is no room for them.
  bool make_tiles();
  // Where the rows of each block lie. REQUIRES: make_tiles() returned true.
  std::vector<CompactSource> sources() const;
  // Adds the tiles of rows that lie together.
  void add_tiles(const CompactRows& rows, std::vector<RowTile>& tiles) const;
  DeviceBytes send_tiles(const std::vector<RowTile>& tiles) const;
  // Calls body(first, count) for some queries after the other, as many as fit; again with fewer
  // when memory runs out.
  template <typename Body>
  void for_groups(std::size_t query_bytes, const Body& body);
  // `extra`: scratch memory besides, at extra_.
  Nominate start_group(std::size_t first, std::size_t count, std::size_t k, std::uint32_t capacity,
                       const Plan& extra = {});
  // Tiles of one launch, at most.
  std::uint32_t most_tiles(const Nominate& work) const;

 private:
  // Makes them of rows that all live. They are kept for the next batch, but for those of the tail, which
  // changes with every commit and has few.
  bool make_lasting_tiles();
  TileLists::Key key_of_tiles(std::size_t blocks) const;
  std::shared_ptr<const TileList> send_list(const TileList& first,
                                            const std::vector<RowTile>& rest) const;
  std::vector<RowTile> list_tiles();
  std::vector<RowTile> list_tiles(std::size_t first_block, std::size_t end) const;
  void add_tiles(const compute::Block& block, const Shadow& shadow, const std::uint64_t* live,
                 std::uint32_t first_ordinal, std::vector<RowTile>& tiles) const;
  // Tiles of the live rows alone. False: there is no room to copy them.
  bool add_compact_tiles(std::vector<RowTile>& tiles);
  // Half-precision copies of the other blocks, within the budget, or of none more than there were.
  bool make_shadows();
  bool make_passing_shadows();
  // Calls finish(work, first query) for some queries after the other, nominees ready. False: as
  // nearest_into().
  template <typename Finish>
  bool nominate(std::size_t k, const Finish& finish);
  void run_phases(Nominate work);
  // Canonical distances of what the phases left, and what of it the result takes.
  void rescore(const Nominate& work, std::size_t first, compute::HitTable& best,
               std::vector<std::uint32_t>& lost);

 protected:
  const Gpu& gpu_;
  Lane& lane_;
  const compute::Workload& work_;
  const RowSet& rows_;
  const RowTable& table_;
  const Copies copies_;
  TileShape shape_{};
  TileLists::Shadows shadows_;  // per block
  std::shared_ptr<const TileList> tiles_, sealed_tiles_;  // the latter begin the former, if there are any
  CompactRows compact_;  // what tiles_ name, if it has any
  Arena extra_{nullptr};
  LoadQueries load_queries_;  // empty: queries are sent
};

template <typename Body>
void BatchSearch::for_groups(std::size_t query_bytes, const Body& body) {
  constexpr std::size_t kGroupMemory = std::size_t{2} << 30;
  constexpr std::size_t kLeast = 256;
  const std::size_t queries = work_.queries.rows;
  const std::size_t most = std::max(kGroupMemory / query_bytes, kLeast) / kLeast * kLeast;
  const std::size_t groups = (queries + most - 1) / most;
  const std::size_t unit = shape_.queries;
  const std::size_t group = ((queries + groups - 1) / groups + unit - 1) / unit * unit;
  in_groups(queries, group, unit, body);
}

}  // namespace warplite::gpu

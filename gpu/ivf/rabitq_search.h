// Searches inverted files of RaBitQ codes on a GPU (rabitq.h): lists, rows and canonical distances
// without the host in between, as many queries at a time as memory allows. Once a search is
// cancelled, its thread blocks begin nothing more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compute/ivf.h"
#include "gpu/ivf/ivf_rows.h"
#include "gpu/ivf/live_mask.h"
#include "gpu/ivf/rabitq.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

class RabitqSearch {
 public:
  static bool supports(const Gpu& gpu, const compute::IvfShape& shape);

  RabitqSearch(const Gpu& gpu, Lane& lane, const compute::IvfWork& work);

  // Adds the nearest rows of every query. Throws Error{kUnsupported} for more nominees than
  // kMostNominated, and for more lists than the device can put in order, unless they are all there are.
  void nearest(compute::HitTable& best);

 private:
  struct Level;
  enum class Search : std::size_t;
  struct Pieces;
  struct Sights;

  std::size_t queries_at_once() const;
  void search_group(std::size_t first, std::size_t count, compute::HitTable& best);
  void send(std::size_t first, const Pieces& at, const Arena& arena);
  void find_lists(const Pieces& at, const Arena& arena);
  void find_rows(const Pieces& at, const Arena& arena);
  void finish(const Pieces& at, const Arena& arena, std::size_t first, compute::HitTable& best);
  void see_lists(const Pieces& at, const Arena& arena, const Sights& sights, const Arena& incoming);
  void take_sights(std::size_t first, const Sights& sights, const Arena& incoming) const;
  RabitqScan scan_of(const Pieces& at, const Arena& arena) const;
  RabitqScan scan_of_rows(const Pieces& at, const Arena& arena) const;
  void search_lists(RabitqScan scan, const Level& level, const Pieces& at, const Arena& arena);
  // Has tensor cores search lists for many queries at once, if that pays. `rows`: in all lists.
  void share_lists(Level& level, const compute::IvfShape& shape, std::size_t queries,
                   std::uint32_t nprobe, std::uint32_t rows) const;
  // Thread blocks that share a query, and the parts in which each list is dealt out to them.
  struct Deal {
    std::uint32_t slices, parts;
  };
  // For a query that looks into so many lists, of so many rows in all.
  Deal deal(std::size_t queries, std::uint32_t lists, double rows) const;
  // That a query looks at, on average.
  double rows_of_lists() const;
  bool canonical() const { return work_.refine != 0; }
  // Lists are searched in the order of their numbers: all of them, and nobody asks which are nearest, or they
  // are more than can be put in order.
  bool every_list() const {
    return work_.nprobe >= shape_.lists &&
           (work_.probed == nullptr || !rabitq_fits(shape_, work_.nprobe, gpu_.shared_memory()));
  }
  // So many lists are wanted that all are compared by their codes, and put in order in the device's memory.
  bool keeps_all_lists() const;
  bool orders_lists() const;

  const Gpu& gpu_;
  Lane& lane_;
  const compute::IvfWork& work_;
  const compute::IvfShape& shape_;
  const std::shared_ptr<const IvfRows> rows_;
  const RowTable& table_;
  std::vector<std::shared_ptr<const LiveMask>> masks_;  // of all runs, where not all rows live
  std::vector<IvfRunView> views_;                       // of all runs, and of lists
  std::uint32_t nominated_ = 0;
};

}  // namespace warplite::gpu

// Searches inverted files on a GPU: coarse assignment by the exact search that vectors have, then
// the steps of ivf.h, a few thousand queries at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/ivf.h"
#include "gpu/ivf/ivf.h"
#include "gpu/ivf/ivf_rows.h"
#include "gpu/rows/row_set.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

class IvfSearch {
 public:
  static bool supports(const Gpu& gpu, const compute::IvfShape& shape);

  IvfSearch(const Gpu& gpu, Lane& lane, const compute::IvfWork& work);

  // Adds the nearest rows of every query. Throws Error{kUnsupported} for more nominees than
  // kMostNominated.
  void nearest(compute::HitTable& best);

 private:
  struct Pieces;
  struct Results;
  struct Scratch;

  std::size_t bytes_per_query() const;
  // The nearest centroids of some queries, `room` apart, on the device: of many queries, ending with
  // a wait; of a few, launched behind prepare().
  void probe(std::size_t first, std::size_t count, std::size_t room, Candidate* out);
  void probe_few(const IvfSearchView& search, const Scratch& scratch, std::uint32_t* lost);
  // False: not done, `few` asked for too much.
  bool search_group(std::size_t first, std::size_t count, bool few, compute::HitTable& best);
  void send(std::size_t first, const Pieces& at, const Arena& arena);
  IvfSearchView view(const Pieces& at, const Arena& arena, Scratch& scratch) const;
  void view_centroids(const Pieces& at, const Arena& arena, Scratch& scratch) const;
  IvfSearchView prepare(std::size_t first, std::size_t count, Scratch& scratch);
  // False: the probes were not found after all.
  bool finish(const IvfSearchView& search, const Scratch& scratch, std::size_t first,
              compute::HitTable& best);

  void nearest_among(std::span<const std::uint32_t> lists, std::uint32_t query,
                     compute::HitTable& best);
  // Calls visit(ordinal among the run's) for every row of the lists.
  template <typename Visit>
  void for_ordinals(const compute::IvfRun& run, std::span<const std::uint32_t> lists,
                    const Visit& visit) const;

  std::uint32_t room() const;  // candidates of a query
  bool coded() const { return work_.model.shape.m != 0; }
  bool canonical() const { return !coded() || work_.refine != 0; }

  const Gpu& gpu_;
  Lane& lane_;
  const compute::IvfWork& work_;
  const std::shared_ptr<const IvfRows> rows_;
  compute::Block centroids_;
  std::uint32_t nominated_ = 0;
  std::uint32_t most_groups_ = 0;       // that a query can meet
};

}  // namespace warplite::gpu

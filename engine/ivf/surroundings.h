// What the lists that a search has probed tell of a filter. One that has to do with where rows lie
// may leave few of those near the query: then those that are wanted are as far as the nearest of a
// larger share of all rows, and recall is what training has measured of such a share
// (index/recall/calibration.h). Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compute/ivf.h"
#include "index/recall/calibration.h"

namespace warplite::engine {

struct Surroundings {
  double share = 0;  // of all rows, that is as near as those wanted
  double beyond =
      1;  // how much more likely a row of it passes outside the lists probed than anywhere
  double nearer = 0;  // of all rows, that is nearer than any of those wanted
  std::optional<std::size_t> step = {};  // of contrast, where recall was measured by it

  // The part of the rows wanted that so many lists hold: what these hold of the share, without what they
  // hold of the nearer ones, which may be far more of less. REQUIRES: there are more lists.
  index::Found found(const index::Calibration::Table& lists, double nprobe) const;
};

// What the lists that were probed hold that is as near as the farthest of the rows wanted that were
// found, whether it passes or not, tells where those rows lie among all: where a filter leaves the
// far side of the near lists, few rows pass that are near, though many pass of the lists. Returns a
// share of `rows`; 1: a larger one than was measured. REQUIRES: the spread is known.
double share_within(double score, const index::Spread::Viewpoint& from,
                    std::span<const compute::ProbedList> lists, const index::Spread& spread,
                    const index::Calibration::Table& found, std::uint64_t rows);

// Of a search for some of the rows that pass.
struct Passing {
  std::uint64_t rows, passing, wanted;
  double least = 0;                 // the share where they lie is no less,
  double nearer = 0;                // and they are not in this one
  Surroundings everywhere() const;  // if they pass everywhere alike
};

// `lists`, that were probed: as compute::IvfWork::probed has them. So many standard errors of what
// is counted are taken for chance. REQUIRES: lists were measured.
Surroundings surroundings_of(const Passing& of, std::span<const compute::ProbedList> lists,
                             const index::Calibration::Table& measured, double errors);

}  // namespace warplite::engine

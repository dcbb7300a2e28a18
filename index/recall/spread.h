// A Spread says what part of a list's rows is as near to a query as some row is, from where the
// query lies to the list's centroid and how far rows of the list lie from it. Ranks of lists do not
// tell that where a filter leaves one side of them: then the rows that are found are farther than
// many that do not pass, and how many of those there are says how far to look. Threads: const
// members from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/distance.h"

namespace warplite::index {

struct Spread {
  // Scores, as compute/ivf.h has them, around one query.
  struct Viewpoint {
    Distance distance = Distance::kL2;
    double norm = 0;  // of the query in model space; only products need it
    // How far a score reaches into rows around a centroid of score `a`, by their radius: with
    // the cosine of the angle at the centroid between the query and a row, rows are within it from
    // minus that on.
    double reach(double score, double a, double radius) const;
  };

  static constexpr std::size_t kSteps = 121;  // of reach: from −kMost to kMost
  static constexpr double kMost = 1.2;

  // Of each list: the root mean square of its rows' distances to its centroid.
  std::vector<float> radii;
  std::vector<float> parts;  // by steps of reach, ascending; empty: it was not measured

  bool known() const { return !parts.empty(); }
  // REQUIRES: it is known.
  double part(const Viewpoint& from, double score, std::uint32_t list, double a) const {
    return part_of_reach(from.reach(score, a, static_cast<double>(radii[list])));
  }
  double part_of_reach(double reach) const;
  // The step at or above a reach.
  static std::size_t step(double reach);
};

}  // namespace warplite::index

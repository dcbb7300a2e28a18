// How far the scores of RaBitQ codes are off, around one query. Near a query rows lie apart, and
// training has measured how many candidates make up for what codes get wrong. Far from it, where a
// filter may leave all the rows there are, many are about as far as one another, and errors are
// larger: then candidates may leave out rows that are nearer than those found, and the scores alone
// do not show it. Threads: any.
#pragma once

#include <cstdint>
#include <span>

#include "compute/ivf.h"
#include "index/recall/spread.h"
#include "index/trained.h"

namespace warplite::engine {

class CodeErrors {
 public:
  // Of `planes` bits a dimension; `extent`: of rows about their centroid times that of the query,
  // by the root of the dimension, as scores count it. 0: nothing is known.
  CodeErrors(std::uint32_t planes, double extent);
  // Of the rows that pass in these lists, as far as they are as near as that score. REQUIRES: RaBitQ
  // codes, and that the spread is known.
  CodeErrors(const index::InvertedModel& model, const index::Spread::Viewpoint& from,
             std::span<const compute::ProbedList> lists, double score);

  // The part of the rows that get a score at least so much worse than is true of them.
  double beyond(double margin) const;

 private:
  std::uint32_t planes_;
  double of_signs_, of_planes_;  // standard errors of what these tell
};

}  // namespace warplite::engine

// A MatchSource is what MatchRows asks for the rows of an answer: the search of a vector column, of
// a TEXT column, or match counts.
// Threads: as the connection. Ownership: what a source was made of outlives it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "compute/ops.h"
#include "engine/filter/filter.h"
#include "engine/table/view.h"
#include "index/index.h"

namespace warplite::sql {

struct MatchQuestion;

class MatchSource {
 public:
  virtual ~MatchSource() = default;
  // The first k rows, in order.
  virtual std::vector<Hit> first(std::size_t k) = 0;
  // Every row, in any order.
  virtual std::vector<Hit> all() = 0;

  // Rows that have not come yet, in any order; there may be none although others are left.
  struct Batch {
    std::vector<Hit> hits;
    bool last = true;  // no others are left
  };
  // Comes after first(). By default some more of the first rows come, and then the rest.
  virtual Batch next(const std::vector<Hit>& come);

 protected:
  // Every row after `last`, in any order.
  virtual std::vector<Hit> rest(const Hit& last) = 0;
};

// `index`: of the question's vector column, else null.
std::unique_ptr<MatchSource> make_source(const MatchQuestion& question, const engine::View& view,
                                         const engine::Selection& selection,
                                         const index::Index* index,
                                         compute::Cancellation& cancellation);

}  // namespace warplite::sql

// What MatchRows asks for the rows of an answer: the search of a vector column, of a TEXT column,
// or match counts.
// Threads: as the connection. Ownership: what a source was made of outlives it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "compute/ops.h"
#include "engine/filter.h"
#include "engine/view.h"
#include "index/index.h"

namespace warplite::sql {

struct MatchQuestion;

class MatchSource {
 public:
  virtual ~MatchSource() = default;
  // The first k rows, in order. `more`: rest() may be asked for.
  virtual std::vector<Hit> first(std::size_t k, bool more) = 0;
  // Every row, in any order.
  virtual std::vector<Hit> all() = 0;
  // Those that come after the ones that have come, in any order.
  virtual std::vector<Hit> rest(const std::vector<Hit>& come) = 0;
};

// `index`: of the question's vector column, else null.
std::unique_ptr<MatchSource> make_source(const MatchQuestion& question, const engine::View& view,
                                         const engine::Selection& selection,
                                         const index::Index* index,
                                         compute::Cancellation& cancellation);

}  // namespace warplite::sql

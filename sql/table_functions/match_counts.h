// Declares what the functions of match counts have in common.
#pragma once

#include <memory>
#include <span>

#include "engine/match/match_count.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {

// Counts the rows of a table as it is when this is made.
class MatchCounts {
 public:
  // `options`: a parameter, of work_options().
  MatchCounts(const Call& call, const OpenTable& table, int options);

  // The k rows that match most of each query.
  compute::HitTable best(std::span<const engine::RelationalQuery> queries, std::size_t k) const;

 private:
  const WorkOptions options_;
  Interrupt interrupt_;
  const std::shared_ptr<const engine::View> view_;
  const engine::Selection selection_;
  engine::CountRequest request_;
};

}  // namespace warplite::sql

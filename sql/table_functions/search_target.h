// (table, column [, options]) as table-valued functions name what they search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/collection.h"
#include "engine/search/search.h"
#include "sql/table_functions/table_function.h"

namespace warplite::sql {

// A vector column of a warp table, dense or sparse.
struct SearchTarget {
  std::shared_ptr<OpenTable> table;
  const ColumnDefinition* column;  // of table->definition

  Place place() const { return {table->definition.table, column->name}; }
};

// Throws Error{kInvalid} when there is no such table or vector column; it names those there are.
SearchTarget search_target(Call& call, int table_parameter, int column_parameter,
                           VectorColumns taken = VectorColumns::kDense);

// Defaults of options that are not given are those of engine/search/search.h.
struct WorkOptions {
  std::string device;  // "" for the configured one
  std::string filter;  // row_filter.h
};
struct DocumentOptions : WorkOptions {
  bool idf = false;  // rare words count more
};
struct SearchOptions : DocumentOptions {
  std::uint32_t nprobe = 0;
  std::optional<double> recall;
  std::optional<std::size_t> refine;
  bool exact = false;
  compute::Select select = compute::Select::kAuto;
  std::optional<ElementType> type;  // of queries that come as an array
  std::vector<std::string> also;    // further tables whose rows are searched
};
// One ranking of what several searches find.
struct RankingOptions : SearchOptions {
  bool linear = false;               // by their scores, each made 0 to 1; else by their ranks
  std::vector<double> weights;       // of each list; empty: 1 each
  std::optional<std::size_t> depth;  // rows that count of each list
  // Of documents of several vectors (engine/search/max_similarity.h):
  std::optional<std::size_t> candidates;
  std::optional<std::vector<Value>> documents;  // numbers and texts, as they came
};

// A JSON object; NULL or absent: the defaults. An unknown key is an error.
SearchOptions search_options(const Call& call, int parameter);
// The same where queries come as an array, whose type may be told.
SearchOptions array_options(const Call& call, int parameter);
RankingOptions fusion_options(const Call& call, int parameter);
RankingOptions interaction_options(const Call& call, int parameter);
// Options of a search for documents, and of all other work.
DocumentOptions document_options(const Call& call, int parameter);
WorkOptions work_options(const Call& call, int parameter);

const index::Index& index_of(const SearchTarget& target);

// Dense queries of the target column's type. REQUIRES: the column is dense.
engine::SearchRequest search_request(const SearchTarget& target, const std::byte* queries,
                                     std::size_t count, const SearchOptions& options,
                                     compute::Cancellation& cancellation);
// Has the request report to the connection, and returns what it reports to.
std::shared_ptr<engine::SearchReport> new_report(const Call& call, const SearchTarget& target,
                                                 engine::SearchRequest& request);
// All in one batch. Queries of this and the next one follow each other without gaps: dense vectors of
// the target column's type, or sparse ones as they are stored (core/sparse.h).
compute::HitTable run_nearest(const Call& call, const SearchTarget& target,
                              const std::byte* queries, std::size_t count, std::size_t k,
                              const SearchOptions& options);

// A RangeSearch finds what lies within a radius of some queries, a part of them at a time, all in one view of
// the table. It outlives the Call. Threads: as the connection.
class RangeSearch {
 public:
  virtual ~RangeSearch() = default;
  // Returns the hits of each of the queries first … end − 1, in the order of results.
  virtual compute::HitLists answer(std::size_t first, std::size_t end) = 0;
};

// It compares every row, whatever the index is. `queries`: as run_nearest() takes them.
std::unique_ptr<RangeSearch> range_search(const Call& call, const SearchTarget& target,
                                          std::vector<std::byte> queries, std::size_t count,
                                          double radius, const SearchOptions& options);

}  // namespace warplite::sql

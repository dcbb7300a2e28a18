// Runs a search: chooses the device, has it hold the blocks, asks the column's index, streams what
// exceeds the memory budget. When a device fails, the CPU answers, unless the query insisted on
// that device. Results name (part, row) in Hit::block, Hit::row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "compute/ops.h"
#include "engine/filter/filter.h"
#include "engine/residency/device_choice.h"
#include "engine/search/search_report.h"
#include "engine/table/view.h"
#include "index/trained.h"

namespace warplite::engine {

// Throws Error{kInvalid} when `nprobe` is asked of an index that learns but has no lists
// (searcher.h): it would be taken for a way to find more. Indexes that compare every row find all
// there is. `place`: the column, as "papers.embedding".
void check_nprobe(const index::Index& index, const std::string& place);

// An index may have this many lists; to ask for more than there are is to ask for all.
inline constexpr std::uint32_t kMostProbes = 1u << 20;

// The part of the true nearest rows that a search is to find.
inline constexpr char kRecallExpected[] = "a number above 0 and up to 1, as 0.95";
inline bool is_recall(double value) { return value > 0 && value <= 1; }

struct SearchRequest {
  std::size_t column = 0;   // index into Layout::vectors
  Distance distance = Distance::kL2;
  MatrixView queries;       // of the column's type and dim; outlives the call
  DistanceRange range;
  bool has_after = false;   // see compute::Workload
  double after_distance = 0;
  RowId after_rowid = 0;
  std::string device;       // empty: the configured one
  compute::Select select = compute::Select::kAuto;  // where every row is compared
  // These concern columns whose index learns (index/trained.h):
  std::uint32_t nprobe = 0;           // lists to probe; 0: the index's default
  std::uint32_t farther = 1;          // so many times the lists that nprobe says
  std::optional<double> recall;       // what the index is to find; none: its default. 1: exact
  std::optional<std::size_t> refine;  // see compute::IvfWork; none: the index's default
  bool exact = false;                 // compare every row
  compute::Cancellation* cancellation = nullptr;
  SearchReport* report = nullptr;     // added to; null: nobody asks
};

// Says whether nearest() compares every row for this request: no model was trained, or has_after, a
// bounded range, `exact` or `recall` ask for it.
bool is_exact(const View& view, const index::Index& index, const SearchRequest& request);

// Says whether nearest() finds its rows by looking at a part of the selected ones, and not at most
// of them: then to compare every row may find others, and costs more.
bool looks_at_part(const View& view, const Selection& rows, const index::Index& index,
                   const SearchRequest& request, std::size_t k);

// The k nearest selected rows of each query. k may exceed the number of rows. Through a trained
// index: of the rows in the probed lists, or of those with most matches, and of those not coded
// yet; more are looked at while fewer than k selected rows are found, so that min(k, selected rows
// with a vector) come back.
compute::HitTable nearest(const View& view, const Selection& rows, const index::Index& index,
                          const SearchRequest& request, std::size_t k);
// All selected rows within the range, unordered; of rows whether they are there or not.
compute::HitLists within(const View& view, const Selection& rows, const index::Index& index,
                         const SearchRequest& request);

}  // namespace warplite::engine

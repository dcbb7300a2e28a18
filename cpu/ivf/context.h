// Holds what the threads of one search of an inverted file share.
// Threads: constant once made. Ownership: borrows the work.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compute/ivf.h"
#include "cpu/ivf/coarse.h"
#include "cpu/ivf/live_masks.h"
#include "cpu/ivf/pq_codebook.h"
#include "cpu/ivf/rabitq_lists.h"
#include "cpu/ivf/rows.h"
#include "cpu/runtime/cpu_buffer.h"
#include "cpu/scan/query_set.h"
#include "cpu/scan/scan_kernels.h"
#include "cpu/scan/screen.h"

namespace warplite::cpu {

// Consecutive positions of one list of a run.
struct IvfSpan {
  std::uint32_t run;
  std::uint32_t begin, end;

  // That they are in, where codes lie in groups.
  std::uint32_t groups() const {
    return compute::RabitqGroup::end_of(end) - compute::RabitqGroup::first_of(begin);
  }
};

class IvfContext {
 public:
  // Throws std::bad_alloc, Error{kLimit}; Error{kInterrupted} when cancelled.
  IvfContext(const compute::IvfWork& work, std::size_t k);

  const compute::IvfWork& work() const { return work_; }
  const compute::IvfShape& shape() const { return work_.model.shape; }
  const ScanKernels& kernels() const { return kernels_; }
  const RowMap& rows() const { return rows_; }
  const IvfRunView& run(std::size_t i) const { return runs_[i]; }
  std::size_t k() const { return k_; }
  // Candidates of a query.
  std::size_t keep() const { return keep_; }
  const PqCodebookView& codebook() const { return codebook_->view(); }
  RowScorer make_scorer() const {
    return RowScorer(flat_, kernels_, queries_, screen_ ? &*screen_ : nullptr);
  }
  // The lists nearest to the query, nearest first; how many of them it probes; and those that it is to search.
  std::span<const Probe> nearest(std::size_t query) const { return lists_[query]; }
  std::size_t probes(std::size_t query) const {
    const std::vector<Probe>& lists = lists_[query];
    return work_.steps().probes_of(lists.size(), [&](std::size_t i) { return lists[i].a; });
  }
  std::span<const Probe> lists(std::size_t query) const {
    const std::span<const Probe> probed = nearest(query).first(probes(query));
    const std::size_t searched = work_.searched == nullptr ? 0 : work_.searched[query];
    return probed.subspan(std::min(searched, probed.size()));
  }
  const float* centroid(std::uint32_t list) const {
    return reinterpret_cast<const float*>(CpuBuffer::of(work_.model.centroids).data()) +
           std::size_t{list} * shape().dim;
  }
  // Bytes that are read of each row of a list.
  std::size_t row_bytes() const { return row_bytes_; }
  // Appends the list's rows of all runs.
  void add_spans(std::uint32_t list, std::vector<IvfSpan>& out) const;
  // Of a run with RaBitQ codes: which rows of each group of positions take part. Null: it is not
  // known by position; or all do.
  const std::uint32_t* live(std::size_t run) const {
    return masks_.empty() || masks_[run] == nullptr ? nullptr : masks_[run]->groups.data();
  }
  // The same, of the groups of a span, where rows of other lists may take part too.
  const std::uint32_t* live(const IvfSpan& span) const {
    const std::uint32_t* const groups = live(span.run);
    return groups == nullptr ? groups : groups + compute::RabitqGroup::first_of(span.begin);
  }
  // Says whether so few rows of the lists take part that to compare all of them takes no longer than to
  // look at codes.
  bool compares_all() const;
  // Adds its rows, and those of them that take part.
  void count_list(std::uint32_t list, compute::ProbedList& out) const;
  // Asks memory for what that reads.
  void ask_for_count(std::uint32_t list) const;
  const float* model_query(std::size_t query) const {
    return work_.model_queries + query * shape().dim;
  }

 private:
  void find_live();
  LiveMasks::Masks masks_of(std::uint32_t run) const;
  compute::ProbedList count_list(std::uint32_t run, std::uint32_t list,
                                 const std::uint32_t* live) const;

  const compute::IvfWork& work_;
  const ScanKernels& kernels_;
  const std::size_t k_;
  compute::Workload flat_;  // the canonical comparisons
  RowMap rows_;
  QuerySet queries_;
  std::optional<Screen> screen_;
  std::vector<IvfRunView> runs_;
  std::vector<std::shared_ptr<const LiveMasks::Masks>> masks_;  // of runs, or empty
  std::size_t keep_;
  std::size_t row_bytes_;
  std::uint32_t span_rows_;  // positions between two questions whether to go on
  std::shared_ptr<const PqCodebook> codebook_;
  std::vector<std::vector<Probe>> lists_;  // of each query
};

}  // namespace warplite::cpu

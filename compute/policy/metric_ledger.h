// Decides when a block or a tile gets its metric index (compute/metric.h, compute/edit_metric.h): at once where
// making all that a search lacks takes little, else once comparing its rows has taken as long as
// making it would. It decides by counts, from which it guesses nanoseconds of a core of the host,
// and never by a clock.
// Threads: whoever owns a ledger guards it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compute/edit.h"
#include "compute/ops.h"

namespace warplite::compute {

// Nanoseconds that a search may spend on indexes which do not pay for that search alone.
inline constexpr double kMetricAtOnce = 7e8;

// A block or tile that has no index.
struct MissingMetric {
  std::size_t which = 0;  // of the search's
  double making = 0;
  double comparing = 0;   // all that the search compares of it
  bool at_once = false;   // it may be made at once if that takes little

  // REQUIRES: the work's `metric`.
  static MissingMetric of(const Workload& work, std::size_t block);
  static MissingMetric of(const EditWork& work, std::size_t tile);
};

// Returns those blocks or tiles of a search for which lacks(number of it), out of `count`.
template <class Work, class Lacks>
std::vector<MissingMetric> missing_metrics(const Work& work, std::size_t count,
                                           const Lacks& lacks) {
  std::vector<MissingMetric> missing;
  for (std::size_t i = 0; i < count; ++i) {
    if (lacks(i)) missing.push_back(MissingMetric::of(work, i));
  }
  return missing;
}

// Asks the ledgers of all of them: claim(missing, whether at once).
template <class Claim>
void claim_missing(std::span<const MissingMetric> missing, const Claim& claim) {
  double all = 0;
  for (const MissingMetric& one : missing) all += one.at_once ? one.making : 0;
  for (const MissingMetric& one : missing) claim(one, one.at_once && all <= kMetricAtOnce);
}

// A MetricLedger keeps the account of one block or tile; its searches share it.
class MetricLedger {
 public:
  bool worth_making(const MissingMetric& missing, bool at_once) {
    spent_ += missing.comparing;
    return (at_once && patience_ == 1) || spent_ >= patience_ * missing.making;
  }
  // It was to be made, and was not: whoever asked had no time for it, or there was no room. Others
  // that come are answered first.
  void given_up() {
    spent_ = 0;
    patience_ *= 4;
  }

 private:
  double spent_ = 0, patience_ = 1;
};

}  // namespace warplite::compute

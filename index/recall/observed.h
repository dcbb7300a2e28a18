// What held rows find, gathered for a Calibration::Table: by those that may be much like some rows,
// and by those that are fresh. What the table says holds for both. Threads: any.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "index/recall/calibration.h"
#include "index/recall/groups.h"
#include "index/recall/mean_found.h"
#include "index/training_task.h"

namespace warplite::index {

// Their nearest that are wanted, of so many rows; and the part of a table's rows that are not among
// these.
struct Share {
  std::span<const std::size_t> counts;
  std::size_t rows;
  double unseen;
};

class Observed {
 public:
  // `groups` outlives it.
  explicit Observed(const Groups& groups) : groups_(groups) {}

  // Of the first held rows (fold 0), or those of a fold that are left out with their groups.
  void add(std::size_t fold, const Places& places, std::size_t query);
  // Adds a line for each count. `for_each`: the looks are those for each row that is wanted.
  void tabulate(const Share& share, const TrainingTask& task, Calibration::Table& table,
                bool for_each) const;
  // Says whether these are at least so many of each kind, usual or fresh, of which `all` has any.
  bool stand_for(const Observed& all, std::size_t least) const;

 private:
  const Groups& groups_;
  Places usual_, fresh_;
};

// The same, of all queries and by steps of contrast. A step of too few queries counts as all queries do.
class ObservedByContrast {
 public:
  // `steps`: known, or nothing is told apart. `contrasts`: of each fold's queries. All outlive it.
  ObservedByContrast(const Groups& groups, const Calibration::Contrasts& steps,
                     const std::vector<std::vector<Contrast>>& contrasts)
      : steps_(steps), contrasts_(contrasts), all_(groups), by_step_(steps.lists.size(), Observed(groups)) {}

  void add(std::size_t fold, const Places& places);
  // `by_step`: as many as there are.
  void tabulate(const Share& share, const TrainingTask& task, bool for_each, Calibration::Table& all,
                std::vector<Calibration::Table>& by_step) const;

 private:
  const Calibration::Contrasts& steps_;
  const std::vector<std::vector<Contrast>>& contrasts_;
  Observed all_;
  std::vector<Observed> by_step_;
};

}  // namespace warplite::index

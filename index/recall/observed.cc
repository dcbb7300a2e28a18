#include "index/recall/observed.h"

#include <vector>

namespace warplite::index {

void Observed::add(std::size_t fold, const Places& places, std::size_t query) {
  // Where the groups of a fold are left out, too few rows may remain.
  if (places.rows[(query + 1) * places.width - 1] == kNoRow) return;
  if (fold == 0 && groups_.usual()[query]) usual_.add(places, query);
  if (groups_.any() && (fold != 0 || groups_.fresh()[query])) fresh_.add(places, query);
}

bool Observed::stand_for(const Observed& all, std::size_t least) const {
  const auto enough = [least](const Places& some, const Places& of) {
    return of.queries() == 0 || some.queries() >= least;
  };
  return enough(usual_, all.usual_) && enough(fresh_, all.fresh_);
}

void Observed::tabulate(const Share& share, const TrainingTask& task, Calibration::Table& table,
                        bool for_each) const {
  for (const std::size_t count : share.counts) {
    table.shares.push_back(
        static_cast<float>(static_cast<double>(count) / static_cast<double>(share.rows)));
    std::vector<MeanFound> means;
    for (const Places* of : {&usual_, &fresh_}) {
      if (of->queries() != 0) means.emplace_back(*of, count, share.unseen);
    }
    for (const std::uint32_t look : table.looks) {
      task.poll()();
      const std::size_t looks = for_each ? look * count : look;
      Found least{0, 1};
      for (const MeanFound& mean : means) {
        const Found found = mean.at(looks);
        if (&mean == &means.front() || found.part - found.error < least.part - least.error)
          least = found;
      }
      table.found.push_back(least);
    }
  }
}

void ObservedByContrast::add(std::size_t fold, const Places& places) {
  for (std::size_t query = 0; query < places.queries(); ++query) {
    all_.add(fold, places, query);
    if (!by_step_.empty()) by_step_[steps_.step(contrasts_[fold][query])].add(fold, places, query);
  }
}

void ObservedByContrast::tabulate(const Share& share, const TrainingTask& task, bool for_each,
                                  Calibration::Table& all,
                                  std::vector<Calibration::Table>& by_step) const {
  constexpr std::size_t kLeast = 24;  // queries that tell something
  all_.tabulate(share, task, all, for_each);
  for (std::size_t step = 0; step < by_step_.size(); ++step) {
    const bool enough = by_step_[step].stand_for(all_, kLeast);
    (enough ? by_step_[step] : all_).tabulate(share, task, by_step[step], for_each);
  }
}

}  // namespace warplite::index

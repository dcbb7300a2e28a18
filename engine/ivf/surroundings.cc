#include "engine/ivf/surroundings.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace warplite::engine {
namespace {

// Rows of some lists, as far as they were counted; each counted list stands for `each` of them.
struct Sum {
  double rows = 0, live = 0, each = 0;

  double rate(double otherwise) const { return rows == 0 ? otherwise : live / rows; }
};

Sum sum_of(std::span<const compute::ProbedList> lists, std::size_t first, std::size_t end) {
  Sum sum;
  std::size_t counted = 0;
  for (std::size_t i = first; i < end; ++i) {
    if (!compute::IvfWork::counts_list(i)) continue;
    ++counted;
    sum.rows += lists[i].rows;
    sum.live += lists[i].live;
  }
  if (counted != 0) sum.each = static_cast<double>(end - first) / static_cast<double>(counted);
  return sum;
}

// How many pass of the rows of the lists that were probed, by the steps in which recall was
// measured, and of the rows of other lists.
class Rates {
 public:
  Rates(const Passing& of, std::span<const compute::ProbedList> lists,
        const index::Calibration::Table& measured)
      : lists_(static_cast<double>(lists.size())), measured_(measured) {
    double rate = static_cast<double>(of.passing) / static_cast<double>(of.rows);
    double rows = static_cast<double>(of.rows), live = static_cast<double>(of.passing);
    for (std::size_t first = 0, step = 0; first < lists.size(); ++step) {
      const std::size_t end =
          step == measured.looks.size()
              ? lists.size()
              : std::clamp<std::size_t>(measured.looks[step], first, lists.size());
      const Sum sum = sum_of(lists, first, end);
      rate = sum.rate(rate);
      rates_.push_back({rate, sum.rows == 0 ? 0 : rate * (1 - rate) / sum.rows});
      rows -= sum.rows * sum.each;
      live -= sum.live * sum.each;
      first = end;
    }
    // What lies beyond is like all that is left, or like what was probed last, where more pass.
    const Sum last = sum_of(lists, lists.size() / 2, lists.size());
    if (rows <= 0 || live <= 0) return;
    beyond_ = std::min(1.0, std::max(live / rows, last.rate(0)));
  }

  // Of the rows of a share; so many standard errors more than were counted.
  double of_share(double share, double errors) const {
    const std::vector<index::Found> found = measured_.along(share);
    double sum = 0, square = 0, before = 0;
    for (std::size_t step = 0; step < rates_.size(); ++step) {
      const double part =
          step + 1 < rates_.size() ? static_cast<double>(found[step].part) : part_of_all(share);
      const double held = std::max(0.0, part - before);
      sum += held * rates_[step].mean;
      square += held * held * rates_[step].variance;
      before = std::max(before, part);
    }
    return sum + errors * std::sqrt(square) + (1 - before) * beyond_;
  }
  double beyond() const { return beyond_; }

 private:
  double part_of_all(double share) const {
    const double most = static_cast<double>(measured_.shares.back());
    return static_cast<double>(measured_.at(std::min(share, most), lists_).part);
  }

  const double lists_;
  const index::Calibration::Table& measured_;
  struct Rate {
    double mean, variance;
  };
  std::vector<Rate> rates_;
  double beyond_ = 0;
};

}  // namespace

index::Found Surroundings::found(const index::Calibration::Table& lists, double nprobe) const {
  if (beyond == 0) return {1, 0};
  if (lists.shares.empty() || share > static_cast<double>(lists.shares.back())) return {};
  const index::Found all = lists.at(share, nprobe);
  auto part = static_cast<double>(all.part);
  if (nearer > 0) {
    const auto inner = static_cast<double>(lists.at(nearer, nprobe).part);
    part = std::clamp((share * part - nearer * inner) / (share - nearer), 0.0, part);
  }
  return {static_cast<float>(std::max(0.0, 1 - beyond * (1 - part))),
          static_cast<float>(beyond) * all.error};
}

Surroundings Passing::everywhere() const {
  return {std::min(1.0, static_cast<double>(wanted) /
                            static_cast<double>(std::max<std::uint64_t>(passing, 1))),
          1};
}

double share_within(double score, const index::Spread::Viewpoint& from,
                    std::span<const compute::ProbedList> lists, const index::Spread& spread,
                    const index::Calibration::Table& found, std::uint64_t rows) {
  constexpr int kHalvings = 16;
  double within = 0;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (!compute::IvfWork::counts_list(i)) continue;
    const std::size_t each = i < compute::IvfWork::kAllCounted ? 1 : compute::IvfWork::kOneIn;
    within += static_cast<double>(each * lists[i].rows) *
              spread.part(from, score, lists[i].list, static_cast<double>(lists[i].a));
  }
  within /= static_cast<double>(rows);
  const auto nprobe = static_cast<double>(lists.size());
  // These lists hold a part of the share: the larger it is, the more they hold, and the less of it.
  const auto held = [&](double share) {
    return share * static_cast<double>(found.at(share, nprobe).part);
  };
  double low = std::log(static_cast<double>(found.shares.front()));
  double high = std::log(static_cast<double>(found.shares.back()));
  if (held(std::exp(low)) >= within) return 0;
  if (held(static_cast<double>(found.shares.back())) < within) return 1;
  for (int step = 0; step < kHalvings; ++step) {
    const double middle = low + (high - low) / 2;
    (held(std::exp(middle)) < within ? low : high) = middle;
  }
  return std::exp(low);
}

// The share has as many rows that pass as are wanted; how many of it pass depends on where it lies.
Surroundings surroundings_of(const Passing& of, std::span<const compute::ProbedList> lists,
                             const index::Calibration::Table& measured, double errors) {
  constexpr int kSteps = 6;
  constexpr double kLeast = 1e-9;
  const Rates rates(of, lists, measured);
  Surroundings around = of.everywhere();
  for (int step = 0; step < kSteps; ++step) {
    const double rate = std::max(kLeast, rates.of_share(around.share, errors));
    const double share =
        std::max(of.least, static_cast<double>(of.wanted) / static_cast<double>(of.rows) / rate);
    around.beyond = rates.beyond() / rate;
    const bool settled = std::fabs(share - around.share) < 0.02 * around.share;
    around.share = std::min(1.0, share);
    if (settled) break;
  }
  // Of less than that the measurement knows little.
  constexpr double kMostNearer = 0.9;
  around.nearer = std::min(of.nearer, kMostNearer * around.share);
  return around;
}

}  // namespace warplite::engine

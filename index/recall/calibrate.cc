// The measurements of a Calibration. Rows are taken in random order: the last are held aside, and
// the nearest are sought among those before them. A tenth of these rows shows what a search for ten
// times the share finds, so that few neighbours of each tell of every share. (They are taken from
// the end, too: with the first rows k-means has begun, so that lists lie around them.)
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "index/clustering/kmeans.h"
#include "index/recall/calibration.h"
#include "index/recall/groups.h"
#include "index/recall/held_rows.h"
#include "index/recall/list_order.h"
#include "index/recall/mean_found.h"
#include "index/recall/measure_codes.h"
#include "index/recall/measure_spread.h"
#include "index/recall/observed.h"

namespace warplite::index {
namespace {

constexpr std::size_t kMostRows = std::size_t{1} << 18;     // among which the nearest are sought,
constexpr std::size_t kMostBytes = std::size_t{512} << 20;  // and their bytes
// Rows that tell how rows spread, and with so many queries what codes find of large shares.
constexpr std::size_t kSomeRows = std::size_t{1} << 15, kSomeQueries = 256;
constexpr std::size_t kLeastRows = 100;  // of a tenth of a tenth …
// Of these, that are wanted; the most of them; and those that are more than of the level before.
// What ten in a tenth of the rows say of a hundred hangs on ten rows, if all queries want the same.
constexpr std::size_t kCounts[] = {1, 3, 10, 30, 100}, kWidth = 100;
constexpr std::span<const std::size_t> kMore = std::span(kCounts).last(2);
constexpr std::size_t kLeastToTell = 400;  // queries of all steps

// Among which the nearest are sought.
std::size_t most_rows(std::size_t row_bytes) {
  return std::min(kMostRows, std::max(kSomeRows, kMostBytes / row_bytes));
}

std::size_t base_rows(const MatrixView& sample) {
  return std::min(sample.rows - held_rows(sample.rows), most_rows(sample.stride()));
}

std::vector<std::size_t> last_first(std::size_t rows) {
  std::vector<std::size_t> order = random_order(rows, rows);
  std::reverse(order.begin(), order.end());
  return order;
}

// The same, but that it begins with so many of those from `first` on.
std::vector<std::size_t> these_first(std::size_t rows, std::size_t first, std::size_t count) {
  std::vector<std::size_t> order, others;
  for (const std::size_t row : last_first(rows)) {
    (row >= first && order.size() < count ? order : others).push_back(row);
  }
  order.insert(order.end(), others.begin(), others.end());
  return order;
}

class Measurement {
 public:
  using Limits = compute::ContrastSteps::Limits;

  // The first so many of the order are held aside. `limits`: null, or those of an earlier measurement.
  Measurement(const TrainingTask& task, const InvertedModel& model, Distance distance,
              const MatrixView& sample, std::uint64_t table_rows,
              const std::vector<std::size_t>& order, std::size_t held, const Limits* limits = nullptr)
      : task_(task),
        model_(model),
        table_rows_(table_rows),
        base_(sample, std::span(order).subspan(held_rows(sample.rows), base_rows(sample))),
        base_buffer_(
            resident(task.device(), base_.view().data, base_.view().rows * base_.view().stride())),
        limits_(limits) {
    folds_.emplace_back(task, model, distance, sample, std::span(order).first(held));
  }

  Calibration run() {
    Calibration calibration;
    task_.report("what lists hold", 0, steps());
    const Groups groups = find_nearest();
    groups.leave_out(folds_);
    for (Level& level : levels_) find_nearest(level, 1, kHeldRows);
    task_.report("what lists hold", 1, steps());
    const CodedRows coded(held(), base_.view());
    const std::vector<std::uint32_t> lists = coded.lists(model_);
    measure_lists(groups, lists, calibration);
    const bool has_codes = model_.shape().m != 0;
    if (has_codes) task_.report("what codes tell", 2, steps());
    const MatrixView some = base_.first(kSomeRows);
    calibration.spread =
        measure_spread(held(), groups.usual(), some, std::span(lists).first(some.rows));
    if (has_codes) {
      task_.report("what codes tell", 3, steps());
      measure_codes(groups, coded, calibration);
    }
    return calibration;
  }

 private:
  // A share of rows whose nearest are sought among the first `rows` of them: kWidth each, by fold.
  struct Level {
    std::size_t rows;
    std::vector<Places> nearest;
  };

  std::size_t steps() const { return model_.shape().m == 0 ? 2 : 4; }
  const HeldRows& held() const { return folds_.front(); }

  // All held rows' at each level, which tell groups.
  Groups find_nearest() {
    std::vector<compute::HitTable> nearest;
    for (std::size_t rows = base_.view().rows; levels_.empty() || rows >= kLeastRows; rows /= 10) {
      const std::size_t most = levels_.size() < 2 ? Groups::kNearest : kWidth;
      nearest.push_back(held().nearest(base_buffer_.get(), base_.first(rows), held().size(), most));
      levels_.push_back({rows, {}});
      levels_.back().nearest.push_back(wanted(nearest.back()));
    }
    return Groups(held(), base_.view(), nearest[0], nearest.size() > 1 ? &nearest[1] : nullptr);
  }

  // Those of the first queries of the folds from `fold` on.
  void find_nearest(Level& level, std::size_t fold, std::size_t queries) const {
    for (; fold < folds_.size(); ++fold) {
      const HeldRows& some = folds_[fold];
      compute::HitTable nearest = some.nearest(base_buffer_.get(), base_.first(level.rows),
                                               std::min(queries, some.size()), kWidth);
      level.nearest.push_back(wanted(nearest));
    }
  }

  // Of each query the first kWidth, at places that are not known yet.
  static Places wanted(compute::HitTable& nearest) {
    Places wanted{kWidth, std::vector<std::uint32_t>(nearest.queries() * kWidth, kNoRow), {}};
    for (std::size_t query = 0; query < nearest.queries(); ++query) {
      const std::span<const Hit> hits = nearest.sorted(query);
      for (std::size_t n = 0; n < std::min(kWidth, hits.size()); ++n) {
        wanted.rows[query * kWidth + n] = hits[n].row;
      }
    }
    wanted.places.resize(wanted.rows.size());
    return wanted;
  }

  Share share(const Level& level, std::span<const std::size_t> counts) const {
    const double seen = static_cast<double>(level.rows) /
                        static_cast<double>(std::max<std::uint64_t>(table_rows_, level.rows));
    return {counts, level.rows, 1 - seen};
  }

  void measure_lists(const Groups& groups, const std::vector<std::uint32_t>& list_of,
                     Calibration& calibration) {
    contrasts_.resize(folds_.size());
    for (std::size_t fold = 0; fold < folds_.size(); ++fold) rank(fold, list_of);
    calibration.lists.looks = ladder(model_.shape().lists);
    if (tells_contrasts(groups)) begin_contrasts(groups, calibration);
    for (const Level& level : levels_) measure_lists(level, groups, calibration);
  }

  void measure_lists(const Level& level, const Groups& groups, Calibration& calibration) const {
    const bool first = &level == &levels_.front();
    ObservedByContrast observed(groups, calibration.contrasts, contrasts_);
    for (std::size_t fold = 0; fold < folds_.size(); ++fold) observed.add(fold, level.nearest[fold]);
    observed.tabulate(share(level, first ? std::span(kCounts) : kMore), task_, false, calibration.lists,
                      calibration.contrasts.lists);
  }

  // Few queries of a step tell nothing that is sure.
  bool tells_contrasts(const Groups& groups) const {
    const auto usual = static_cast<std::size_t>(std::ranges::count(groups.usual(), true));
    return model_.shape().lists > compute::ContrastSteps::kPlace + 1 &&
           (limits_ != nullptr || usual >= kLeastToTell);
  }

  // Each step but the last two has half of those that are left.
  void begin_contrasts(const Groups& groups, Calibration& calibration) const {
    Calibration::Contrasts& contrasts = calibration.contrasts;
    std::vector<Contrast> usual;
    for (std::size_t query = 0; query < held().size(); ++query) {
      if (groups.usual()[query]) usual.push_back(contrasts_.front()[query]);
    }
    std::ranges::sort(usual, {}, &Contrast::ease);
    for (std::size_t i = 0; i < contrasts.limits.size(); ++i) {
      contrasts.limits[i] = usual[(usual.size() - 1) >> (i + 1)].limit();
    }
    std::ranges::sort(contrasts.limits, std::greater());  // of products the easiest have the least
    if (limits_ != nullptr) contrasts.limits = *limits_;
    for (const Contrast& contrast : usual) {
      contrasts.parts[contrasts.step(contrast)] += 1 / static_cast<float>(usual.size());
    }
    contrasts.lists.assign(contrasts.parts.size(), calibration.lists);
  }

  // How many lists are nearer to a held row than that of each of its neighbours.
  void rank(std::size_t fold, const std::vector<std::uint32_t>& list_of) {
    constexpr std::size_t kMostBatch = 64, kMostNumbers = std::size_t{1} << 20;
    const std::size_t lists = model_.shape().lists, queries = folds_[fold].size();
    const std::size_t batch = std::clamp<std::size_t>(kMostNumbers / lists, 1, kMostBatch);
    const ListOrder order(folds_[fold]);
    std::vector<float> away(batch * lists);
    contrasts_[fold].resize(queries);
    for (std::size_t first = 0; first < queries; first += batch) {
      const std::size_t count = std::min(batch, queries - first);
      order.find(first, count, away.data(), contrasts_[fold].data() + first);
      for (std::size_t i = 0; i < count; ++i) {
        rank({away.data() + i * lists, lists}, list_of, fold, first + i);
      }
    }
  }

  // Those of one held row, which the lists are so far away from. Many of its neighbours are in the
  // same lists.
  void rank(std::span<const float> away, const std::vector<std::uint32_t>& list_of,
            std::size_t fold, std::size_t query) {
    constexpr std::uint32_t kUnknown = ~0u;
    std::vector<std::uint32_t> ranks(away.size(), kUnknown);
    for (Level& level : levels_) {
      Places& nearest = level.nearest[fold];
      for (std::size_t n = query * kWidth; n < (query + 1) * kWidth; ++n) {
        if (nearest.rows[n] == kNoRow) continue;
        const std::uint32_t list = list_of[nearest.rows[n]];
        if (ranks[list] == kUnknown) ranks[list] = rank(away, list);
        nearest.places[n] = ranks[list];
      }
    }
  }

  // Itself aside. Where numbers are too large or too small to tell lists apart, it comes last.
  static std::uint32_t rank(std::span<const float> away, std::uint32_t list) {
    const float mine = away[list];
    const auto before =
        std::ranges::count_if(away, [mine](float other) { return !(other > mine); });
    return static_cast<std::uint32_t>(before - 1);
  }

  void measure_codes(const Groups& groups, const CodedRows& coded, Calibration& calibration) const {
    constexpr std::size_t kCodedCounts[] = {1, 10, 100};
    const Level& all = levels_.front();
    index::measure_codes(folds_, groups, coded, all.nearest, share(all, kCodedCounts), contrasts_,
                         calibration);
    if (all.rows <= kSomeRows) return;
    Level some{kSomeRows, {}};
    find_nearest(some, 0, kSomeQueries);
    const CodedRows first(held(), base_.first(kSomeRows));
    index::measure_codes(folds_, groups, first, some.nearest,
                         share(some, std::span(kCodedCounts).last(1)), contrasts_, calibration);
  }

  const TrainingTask& task_;
  const InvertedModel& model_;
  const std::uint64_t table_rows_;
  const PickedRows base_;
  const std::shared_ptr<const compute::Buffer> base_buffer_;
  const Limits* const limits_;
  std::deque<HeldRows> folds_;  // all held rows, and then some without their groups
  std::vector<std::vector<Contrast>> contrasts_;  // of each fold's queries
  std::vector<Level> levels_;
};

}  // namespace

std::size_t calibration_rows(std::size_t row_bytes) {
  return most_rows(row_bytes) + kHeldRows;
}

std::size_t held_rows(std::size_t sample_rows) {
  const std::size_t held = std::min(kHeldRows, sample_rows / kHeldShare);
  return held < kLeastHeld ? 0 : held;
}

Calibration calibrate(const TrainingTask& task, const InvertedModel& model, Distance distance,
                      const MatrixView& sample, std::uint64_t table_rows, std::size_t newer) {
  // Measured of so many of the newer rows, it takes a third longer.
  constexpr std::size_t kMostNewer = 256, kNewerShare = 8;
  const std::size_t held = held_rows(sample.rows);
  if (held == 0) return {};
  const std::size_t new_held = std::min({held, kMostNewer, newer / kNewerShare});
  const bool apart = new_held >= kLeastHeld && newer < sample.rows;
  const double all_end = apart ? 0.75 : 1;
  Calibration all = Measurement(task.part(0, all_end), model, distance, sample, table_rows,
                                last_first(sample.rows), held)
                        .run();
  if (!apart) return all;
  const auto& limits = all.contrasts.limits;
  const Calibration of_newer =
      Measurement(task.part(all_end, 1), model, distance, sample, table_rows,
                  these_first(sample.rows, sample.rows - newer, new_held), new_held,
                  all.contrasts.known() ? &limits : nullptr)
          .run();
  all.lists.take_less(of_newer.lists);
  all.codes.take_less(of_newer.codes);
  for (std::size_t step = 0; step < all.contrasts.lists.size(); ++step) {
    all.contrasts.lists[step].take_less(of_newer.contrasts.lists[step]);
    if (!all.codes.looks.empty()) all.contrasts.codes[step].take_less(of_newer.contrasts.codes[step]);
  }
  return all;
}

}  // namespace warplite::index

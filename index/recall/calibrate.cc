// The measurements of a Calibration. Rows are taken in random order: the last are held aside, and
// the nearest are sought among those before them. A tenth of these rows shows what a search for ten
// times the share finds, so that few neighbours of each tell of every share. (They are taken from
// the end, too: with the first rows k-means has begun, so that lists lie around them.)
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "index/clustering/kmeans.h"
#include "index/clustering/nearest_list.h"
#include "index/recall/calibration.h"
#include "index/recall/held_rows.h"
#include "index/recall/list_order.h"
#include "index/recall/mean_found.h"
#include "index/recall/measure_codes.h"
#include "index/recall/measure_spread.h"

namespace warplite::index {
namespace {

constexpr std::size_t kMostRows = std::size_t{1} << 18;  // among which the nearest are sought,
constexpr std::size_t kMostBytes = std::size_t{512} << 20;  // and their bytes
constexpr std::size_t kCodedRows = std::size_t{1} << 15;
constexpr std::size_t kLeastRows = 100;         // of a tenth of a tenth …
constexpr std::size_t kCounts[] = {1, 3, 10};               // of these, that are wanted,
constexpr std::size_t kWideCounts[] = {1, 3, 10, 30, 100};  // and of the fewest rows: large shares

// Among which the nearest are sought.
std::size_t most_rows(std::size_t row_bytes) {
  return std::min(kMostRows, std::max(kCodedRows, kMostBytes / row_bytes));
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
  // The first so many of the order are held aside.
  Measurement(const TrainingTask& task, const InvertedModel& model, Distance distance,
              const MatrixView& sample, const std::vector<std::size_t>& order, std::size_t held)
      : task_(task), model_(model),
        held_(task, model, distance, sample, std::span(order).first(held)),
        base_(sample, std::span(order).subspan(held_rows(sample.rows), base_rows(sample))),
        base_buffer_(resident(task.device(), base_.view().data,
                              base_.view().rows * base_.view().stride())) {}

  Calibration run() {
    Calibration calibration;
    std::vector<Level> levels = find_nearest();
    calibration.lists = measure_lists(levels);
    const bool has_codes = model_.shape().m != 0;
    if (has_codes) task_.report("what codes tell", 2, steps());
    const CodedRows coded(held_, base_.first(kCodedRows));
    calibration.spread =
        measure_spread(held_, levels.front().twins, coded.rows, coded.lists(model_));
    if (has_codes) {
      task_.report("what codes tell", 3, steps());
      measure_codes(held_, base_.view(), coded, levels.front().nearest, levels.front().twins,
                    calibration.codes);
    }
    return calibration;
  }

 private:
  // A share of rows whose nearest are sought among the first `rows` of them.
  struct Level {
    std::size_t rows;
    std::span<const std::size_t> counts;  // that are wanted
    compute::HitTable nearest;            // kMostTwins more, and more of the first level
    Twins twins;

    std::size_t width() const { return std::min(nearest.k(), counts.back() + kMostTwins); }
    std::span<const Hit> wanted(std::size_t query) { return nearest.sorted(query).first(width()); }
  };
  // How many lists are nearer to a held row than that of each of its neighbours: by level, held rows
  // after one another, Level::width() each.
  using Ranks = std::vector<std::vector<std::uint32_t>>;

  std::size_t steps() const { return model_.shape().m == 0 ? 2 : 4; }
  std::size_t held() const { return held_.rows.view().rows; }

  std::vector<Level> find_nearest() const {
    std::vector<Level> levels;
    task_.report("what lists hold", 0, steps());
    for (std::size_t rows = base_.view().rows; levels.empty() || rows >= kLeastRows; rows /= 10) {
      const bool last = rows / 10 < kLeastRows;
      const std::span<const std::size_t> counts =
          last && rows >= kLeastRows ? std::span<const std::size_t>(kWideCounts) : kCounts;
      const std::size_t most = levels.empty() ? std::max(kNearRows, counts.back()) : counts.back();
      levels.push_back({rows, counts,
                        held_.nearest(base_buffer_.get(), base_.first(rows), held(), most + kMostTwins),
                        {}});
      levels.back().twins =
          held_.twins(levels.back().nearest, levels.size() == 1 ? nullptr : &levels.front().twins);
    }
    return levels;
  }

  Calibration::Table measure_lists(std::vector<Level>& levels) const {
    task_.report("what lists hold", 1, steps());
    const std::vector<std::uint32_t> lists = lists_of(levels);
    const Ranks ranks = rank(levels, lists);
    return tabulate(levels, ranks);
  }

  // The list of each row that is a neighbour; of others anything.
  std::vector<std::uint32_t> lists_of(std::vector<Level>& levels) const {
    const std::vector<std::size_t> rows = neighbors(levels);
    const PickedRows picked(base_.view(), rows);
    const std::uint32_t dim = base_.view().dim;
    std::vector<float> vectors(rows.size() * dim);
    model_.to_model_space(picked.view(), vectors.data());
    std::vector<Nearest> nearest(rows.size());
    NearestList(task_.devices(), model_.centroids(), model_.shape().lists, dim)
        .find(vectors.data(), rows.size(), task_.cancellation(), nearest.data());
    std::vector<std::uint32_t> lists(base_.view().rows);
    for (std::size_t i = 0; i < rows.size(); ++i) lists[rows[i]] = nearest[i].list;
    return lists;
  }

  // Ascending.
  std::vector<std::size_t> neighbors(std::vector<Level>& levels) const {
    std::vector<bool> wanted(base_.view().rows);
    for (Level& level : levels) {
      for (std::size_t q = 0; q < held(); ++q) {
        task_.poll()();
        for (const Hit& hit : level.wanted(q)) wanted[hit.row] = true;
      }
    }
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < wanted.size(); ++row) {
      if (wanted[row]) rows.push_back(row);
    }
    return rows;
  }

  Ranks rank(std::vector<Level>& levels, const std::vector<std::uint32_t>& list_of) const {
    constexpr std::size_t kMostBatch = 64, kMostNumbers = std::size_t{1} << 20;
    const std::size_t lists = model_.shape().lists;
    const std::size_t batch = std::clamp<std::size_t>(kMostNumbers / lists, 1, kMostBatch);
    const ListOrder order(held_);
    Ranks ranks;
    for (const Level& level : levels) ranks.emplace_back(held() * level.width());
    std::vector<float> away(batch * lists);
    for (std::size_t first = 0; first < held(); first += batch) {
      const std::size_t count = std::min(batch, held() - first);
      order.find(first, count, away.data());
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t l = 0; l < levels.size(); ++l) {
          rank_hits(levels[l].wanted(first + i), list_of, {away.data() + i * lists, lists},
                    &ranks[l][(first + i) * levels[l].width()]);
        }
      }
    }
    return ranks;
  }

  // Those of one held row, which the lists are so far away from.
  static void rank_hits(std::span<const Hit> hits, const std::vector<std::uint32_t>& list_of,
                        std::span<const float> away, std::uint32_t* ranks) {
    for (std::size_t n = 0; n < hits.size(); ++n) {
      const float mine = away[list_of[hits[n].row]];
      // Itself aside. Where numbers are too large or too small to tell lists apart, it comes last.
      ranks[n] = static_cast<std::uint32_t>(
          std::count_if(away.begin(), away.end(), [mine](float other) { return !(other > mine); }) -
          1);
    }
  }

  Calibration::Table tabulate(const std::vector<Level>& levels, const Ranks& ranks) const {
    Calibration::Table table;
    table.looks = ladder(model_.shape().lists);
    for (std::size_t l = 0; l < levels.size(); ++l) {
      for (const std::size_t count : levels[l].counts) {
        if (l != 0 && count == kCounts[0]) continue;  // as much as the last of the level before
        const auto share = static_cast<float>(static_cast<double>(count) /
                                              static_cast<double>(levels[l].rows));
        table.shares.push_back(share);
        for (const std::uint32_t probes : table.looks) {
          task_.poll()();
          table.found.push_back(mean_found(ranks[l], levels[l].width(), levels[l].twins, count, probes));
        }
      }
    }
    return table;
  }

  const TrainingTask& task_;
  const InvertedModel& model_;
  const HeldRows held_;
  const PickedRows base_;
  const std::shared_ptr<const compute::Buffer> base_buffer_;
};

}  // namespace

std::size_t calibration_rows(std::size_t row_bytes) { return most_rows(row_bytes) + kHeldRows; }

std::size_t held_rows(std::size_t sample_rows) {
  const std::size_t held = std::min(kHeldRows, sample_rows / kHeldShare);
  return held < kLeastHeld ? 0 : held;
}

Calibration calibrate(const TrainingTask& task, const InvertedModel& model, Distance distance,
                      const MatrixView& sample, std::size_t newer) {
  // Measured of so many of the newer rows, it takes a third longer.
  constexpr std::size_t kMostNewer = 256, kNewerShare = 8;
  const std::size_t held = held_rows(sample.rows);
  if (held == 0) return {};
  const std::size_t new_held = std::min({held, kMostNewer, newer / kNewerShare});
  const bool apart = new_held >= kLeastHeld && newer < sample.rows;
  const double all_end = apart ? 0.75 : 1;
  Calibration all = Measurement(task.part(0, all_end), model, distance, sample,
                                last_first(sample.rows), held)
                        .run();
  if (!apart) return all;
  const Calibration of_newer =
      Measurement(task.part(all_end, 1), model, distance, sample,
                  these_first(sample.rows, sample.rows - newer, new_held), new_held)
          .run();
  all.lists.take_less(of_newer.lists);
  all.codes.take_less(of_newer.codes);
  return all;
}

}  // namespace warplite::index

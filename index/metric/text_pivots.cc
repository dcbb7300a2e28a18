#include "index/metric/text_pivots.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "index/metric/text_metric.h"

namespace warplite::index {
namespace {

using compute::kEditGroup;
using compute::TextPivots;

// More tests of a text cost more than they save.
constexpr std::uint32_t kMostPivots = 64;

using Distances = std::vector<std::uint16_t>;  // by text, and what follows up to a whole group

class Selection {
 public:
  Selection(compute::Device& host, const TileTexts& texts, double alpha,
            compute::Cancellation* cancellation)
      : host_(host), texts_(texts), alpha_(alpha), cancellation_(cancellation) {
    std::vector<std::uint32_t> all(texts.size());
    std::iota(all.begin(), all.end(), 0u);
    groups_.assign(texts, all);
  }

  // Texts in the order of their rows that are far from those before.
  void run() {
    std::vector<std::uint32_t> by_row(texts_.size());
    std::iota(by_row.begin(), by_row.end(), 0u);
    std::sort(by_row.begin(), by_row.end(),
              [&](std::uint32_t a, std::uint32_t b) { return texts_.row(a) < texts_.row(b); });
    add(by_row[0]);
    const double apart = std::max(1.0, alpha_ * diameter());
    Distances nearest = table_[0];
    for (const std::uint32_t text : by_row) {
      if (pivots_.size() == kMostPivots) break;
      if (nearest[text] < apart) continue;
      add(text);
      for (std::size_t i = 0; i < nearest.size(); ++i) {
        nearest[i] = std::min(nearest[i], table_.back()[i]);
      }
    }
  }

  const std::vector<std::uint32_t>& pivots() const { return pivots_; }
  const std::vector<Distances>& table() const { return table_; }

 private:
  void add(std::uint32_t text) {
    table_.push_back(distances_of(text));
    pivots_.push_back(text);
  }

  Distances distances_of(std::uint32_t text) const {
    Distances out(groups_.places());
    groups_.compute(host_, texts_.symbols(text), cancellation_, out.data());
    out.resize(texts_.size());
    return out;
  }

  // The largest distance of two texts, about: from the first row to the farthest, from there to the
  // farthest again. The largest of all pairs would take all of them.
  double diameter() const {
    constexpr int kSteps = 3;
    Distances distances = table_[0];
    std::uint16_t most = 0;
    for (int step = 0;; ++step) {
      const auto farthest = std::max_element(distances.begin(), distances.end());
      most = std::max(most, *farthest);
      if (step == kSteps) return most;
      distances = distances_of(static_cast<std::uint32_t>(farthest - distances.begin()));
    }
  }

  compute::Device& host_;
  const TileTexts& texts_;
  const double alpha_;
  compute::Cancellation* const cancellation_;
  TextDistances groups_;
  std::vector<std::uint32_t> pivots_;
  std::vector<Distances> table_;  // by pivot
};

// Texts that are alike in their distances next to each other: halved at the middle of the pivot
// whose distances vary most, and so on down to groups.
class Arrangement {
 public:
  explicit Arrangement(const std::vector<Distances>& table) : table_(table) {}

  std::vector<std::uint32_t> run() {
    std::vector<std::uint32_t> order(table_[0].size());
    std::iota(order.begin(), order.end(), 0u);
    halve(order);
    return order;
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the number of texts has bits
  void halve(std::span<std::uint32_t> texts) {
    if (texts.size() <= kEditGroup) return;
    const Distances& distances = table_[most_varied(texts)];
    const std::size_t groups = text_groups(texts.size());
    const std::size_t half = (groups + 1) / 2 * kEditGroup;
    const auto middle = texts.begin() + static_cast<std::ptrdiff_t>(half);
    std::nth_element(texts.begin(), middle, texts.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(distances[a], a) < std::pair(distances[b], b);
    });
    halve(texts.first(half));
    halve(texts.subspan(half));
  }

  // Chooses the pivot with the most varied distances, judged by a sample if texts are many.
  std::size_t most_varied(std::span<const std::uint32_t> texts) const {
    constexpr std::size_t kSample = 256;
    const std::size_t step = std::max<std::size_t>(1, texts.size() / kSample);
    std::size_t best = 0;
    double most = -1;
    for (std::size_t pivot = 0; pivot < table_.size(); ++pivot) {
      double sum = 0, squares = 0, count = 0;
      for (std::size_t i = 0; i < texts.size(); i += step) {
        const double distance = table_[pivot][texts[i]];
        sum += distance;
        squares += distance * distance;
        ++count;
      }
      const double variance = squares / count - sum / count * (sum / count);
      if (variance <= most) continue;
      most = variance;
      best = pivot;
    }
    return best;
  }

  const std::vector<Distances>& table_;
};

class PivotBuilder : public compute::TextMetricBuilder {
 public:
  explicit PivotBuilder(double alpha) : alpha_(alpha) {}

  double cost(std::size_t texts) const override {
    constexpr double kArranging = 1.5;  // times as long again, of words (bench/kernels/NOTES.md)
    return static_cast<double>(texts) * kMostPivots * (1 + kArranging);
  }
  std::shared_ptr<const compute::TextMetric> build(
      compute::Device& host, const compute::EditTile& tile, const std::byte* bytes,
      compute::Cancellation* cancellation) const override {
    auto out = std::make_shared<compute::TextMetric>();
    out->width = tile.width;
    const TileTexts texts(tile, bytes);
    out->pivots = std::make_unique<TextPivots>(choose_pivots(host, texts, alpha_, cancellation));
    return out;
  }

 private:
  const double alpha_;
};

}  // namespace

TextPivots choose_pivots(compute::Device& host, const TileTexts& texts, double alpha,
                         compute::Cancellation* cancellation) {
  TextPivots out;
  if (texts.size() == 0) {
    out.pivots = texts.lay_out({});
    out.members = texts.lay_out({});
    return out;
  }
  Selection selection(host, texts, alpha, cancellation);
  selection.run();
  const std::vector<std::uint32_t> order = Arrangement(selection.table()).run();
  out.count = static_cast<std::uint32_t>(selection.pivots().size());
  out.pivots = texts.lay_out(selection.pivots());
  out.members = texts.lay_out(order);
  const std::size_t places = out.members.lengths.size();
  out.rows.resize(places);
  for (std::size_t i = 0; i < order.size(); ++i) out.rows[i] = texts.row(order[i]);
  out.table.resize(out.count * places, TextPivots::kFarthest);
  for (std::size_t pivot = 0; pivot < out.count; ++pivot) {
    const Distances& distances = selection.table()[pivot];
    for (std::size_t i = 0; i < order.size(); ++i) {
      out.table[pivot * places + i] = static_cast<std::uint8_t>(
          std::min<std::uint32_t>(distances[order[i]], TextPivots::kFarthest));
    }
  }
  return out;
}

std::unique_ptr<compute::TextMetricBuilder> make_text_pivots(double alpha) {
  return std::make_unique<PivotBuilder>(alpha);
}

}  // namespace warplite::index

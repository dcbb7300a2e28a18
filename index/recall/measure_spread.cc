#include "index/recall/measure_spread.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "index/clustering/matrix.h"
#include "index/quantization/codes.h"

namespace warplite::index {
namespace {

constexpr std::size_t kQueries = 128;
constexpr std::size_t kMostScores = std::size_t{1} << 25;  // of queries and lists, held at once
constexpr std::size_t kLeastNear = 3;  // rows that are near, then about three times as many …
constexpr double kMostNear = 0.1;      // … up to this part of all
constexpr std::size_t kChunk = 4096;   // rows in model space at a time
// A list of so many rows counts as much as what lists are like on average.
constexpr double kUsual = 4;

class Measurement {
 public:
  Measurement(const HeldRows& held, const std::vector<bool>& usual, const MatrixView& rows,
              std::span<const std::uint32_t> lists)
      : task_(held.task),
        dim_(rows.dim),
        product_(held.distance == Distance::kInnerProduct),
        model_(held.model),
        rows_(rows),
        lists_(lists),
        rows_of_list_(model_.shape().lists),
        centre_(dim_) {
    if (!product_) find_centre();
    take_queries(held, usual);
    scores_.resize(count_ * rows.rows);
    from_.distance = held.distance;
    for (const std::uint32_t list : lists) {
      if (list != CodesView::kNoList) ++rows_of_list_[list];
    }
  }

  Spread run() {
    read_rows();
    // Near the ends of what float32 holds nothing can be said of how far rows lie.
    const auto finite = [](float radius) { return std::isfinite(radius); };
    if (!std::ranges::all_of(spread_.radii, finite)) return {};
    const std::size_t lists = rows_of_list_.size();
    std::vector<float> away(count_ * lists);
    score(model_.centroids(), lists, away.data(), lists);
    for (std::size_t q = 0; q < count_; ++q) count(q, away.data() + q * lists);
    double most = 0;
    for (std::size_t step = 0; step < Spread::kSteps; ++step) {
      if (all_[step] > 0) most = std::max(most, near_[step] / all_[step]);
      spread_.parts.push_back(static_cast<float>(std::min(1.0, most)));
    }
    return std::move(spread_);
  }

 private:
  // Of the centroids. Squares of what lies about it are small beside those of rows that all lie far
  // from 0.
  void find_centre() {
    const std::size_t lists = rows_of_list_.size();
    for (std::size_t d = 0; d < dim_; ++d) {
      double sum = 0;
      for (std::size_t list = 0; list < lists; ++list) {
        sum += static_cast<double>(model_.centroids()[list * dim_ + d]);
      }
      centre_[d] = static_cast<float>(sum / static_cast<double>(lists));
    }
  }

  void take_queries(const HeldRows& held, const std::vector<bool>& usual) {
    const std::size_t most = std::min(kQueries, kMostScores / rows_of_list_.size());
    for (std::size_t row = 0; row < usual.size() && count_ < most; ++row) {
      if (!usual[row]) continue;
      const float* const query = held.in_model_space.data() + row * dim_;
      queries_.insert(queries_.end(), query, query + dim_);
      norms_.push_back(std::sqrt(square_norm(query, dim_)));
      ++count_;
    }
    move_to_centre(queries_.data(), count_);
    for (std::size_t q = 0; q < count_; ++q) {
      squares_.push_back(square_norm(queries_.data() + q * dim_, dim_));
    }
  }

  void move_to_centre(float* vectors, std::size_t count) const {
    for (std::size_t i = 0; i < count * dim_; ++i) vectors[i] -= centre_[i % dim_];
  }

  // Scores of queries and rows, and the radius of each list.
  void read_rows() {
    std::vector<double> squares(rows_of_list_.size());
    std::vector<float> chunk(std::min(kChunk, rows_.rows) * dim_);
    double sum = 0, rows = 0;
    for (std::size_t first = 0; first < rows_.rows; first += kChunk) {
      MatrixView some = rows_;
      some.data = rows_.row(first);
      some.rows = std::min(kChunk, rows_.rows - first);
      model_.to_model_space(some, chunk.data());
      score(chunk.data(), some.rows, scores_.data() + first, rows_.rows);
      for (std::size_t i = 0; i < some.rows; ++i) {
        const std::uint32_t list = lists_[first + i];
        if (list == CodesView::kNoList) continue;
        const double away = square_away(chunk.data() + i * dim_, list);
        squares[list] += away;
        sum += away;
        rows += 1;
      }
    }
    const double usual = rows == 0 ? 0 : sum / rows;
    for (std::size_t list = 0; list < squares.size(); ++list) {
      const double mean = (squares[list] + kUsual * usual) / (rows_of_list_[list] + kUsual);
      spread_.radii.push_back(static_cast<float>(std::sqrt(mean)));
    }
  }

  double square_away(const float* row, std::uint32_t list) const {
    const float* const centroid = model_.centroids() + std::size_t{list} * dim_;
    double sum = 0;
    for (std::size_t d = 0; d < dim_; ++d) {
      const double x = static_cast<double>(row[d]) - static_cast<double>(centroid[d]);
      sum += x * x;
    }
    return sum;
  }

  // out[query · stride + i]: the score of the i-th of some vectors.
  void score(const float* given, std::size_t count, float* out, std::size_t stride) const {
    std::vector<float> moved(given, given + count * dim_);
    move_to_centre(moved.data(), count);
    const float* const vectors = moved.data();
    const std::vector<float> across = transpose(vectors, count, dim_);
    std::vector<float> products(count_ * count), norms(count);
    multiply(queries_.data(), count_, dim_, across.data(), count, products.data(), task_.poll());
    for (std::size_t i = 0; i < count; ++i) {
      norms[i] = product_ ? 0 : static_cast<float>(square_norm(vectors + i * dim_, dim_));
    }
    for (std::size_t q = 0; q < count_; ++q) {
      const auto own = static_cast<float>(product_ ? 0 : squares_[q]);
      for (std::size_t i = 0; i < count; ++i) {
        const float product = products[q * count + i];
        out[q * stride + i] = product_ ? -product : std::max(0.0f, own + norms[i] - 2 * product);
      }
    }
  }

  // Counts rows of each list that are as near to the query as a few, as some more, and so on.
  void count(std::size_t query, const float* away) {
    task_.poll()();
    const float* const scores = scores_.data() + query * rows_.rows;
    std::vector<float> sorted(scores, scores + rows_.rows);
    const auto most = static_cast<std::size_t>(kMostNear * static_cast<double>(sorted.size()));
    if (most < kLeastNear) return;
    std::partial_sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(most),
                      sorted.end());
    from_.norm = norms_[query];
    for (std::size_t near = kLeastNear; near <= most; near = 3 * near + near / 3) {
      count_within(scores, static_cast<double>(sorted[near - 1]), away);
    }
  }

  void count_within(const float* scores, double limit, const float* away) {
    std::vector<std::size_t> steps(rows_of_list_.size());
    for (std::uint32_t list = 0; list < steps.size(); ++list) {
      const double radius = static_cast<double>(spread_.radii[list]);
      steps[list] = Spread::step(from_.reach(limit, static_cast<double>(away[list]), radius));
      all_[steps[list]] += rows_of_list_[list];
    }
    for (std::size_t row = 0; row < rows_.rows; ++row) {
      if (static_cast<double>(scores[row]) > limit || lists_[row] == CodesView::kNoList) continue;
      near_[steps[lists_[row]]] += 1;
    }
  }

  const TrainingTask& task_;
  const std::size_t dim_;
  const bool product_;
  const InvertedModel& model_;
  const MatrixView& rows_;
  const std::span<const std::uint32_t> lists_;
  std::vector<std::uint32_t> rows_of_list_;
  std::vector<float> centre_;  // 0 of products
  std::size_t count_ = 0;
  std::vector<float> queries_;           // from the centre on
  std::vector<double> squares_, norms_;  // of these; of queries
  std::vector<float> scores_;            // [queries][rows]
  Spread::Viewpoint from_;
  Spread spread_;
  double near_[Spread::kSteps] = {}, all_[Spread::kSteps] = {};
};

}  // namespace

Spread measure_spread(const HeldRows& held, const std::vector<bool>& usual, const MatrixView& rows,
                      std::span<const std::uint32_t> lists) {
  return Measurement(held, usual, rows, lists).run();
}

}  // namespace warplite::index

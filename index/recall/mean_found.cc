#include "index/recall/mean_found.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace warplite::index {
std::vector<std::uint32_t> ladder(std::uint32_t most) {
  std::vector<std::uint32_t> steps;
  for (double step = 1; step + 0.5 < most;
       step = step < 8 ? step + 1 : step * std::sqrt(std::sqrt(2.0))) {
    steps.push_back(static_cast<std::uint32_t>(std::lround(step)));
  }
  steps.push_back(most);
  return steps;
}

void Places::add(const Places& from, std::size_t index) {
  width = from.width;
  const auto first = static_cast<std::ptrdiff_t>(index * width);
  const auto end = first + static_cast<std::ptrdiff_t>(width);
  rows.insert(rows.end(), from.rows.begin() + first, from.rows.begin() + end);
  places.insert(places.end(), from.places.begin() + first, from.places.begin() + end);
}

MeanFound::MeanFound(const Places& of, std::size_t count, double unseen)
    : of_(of), count_(std::min(count, of.width)), unseen_(unseen) {
  for (std::size_t query = 0; query < of.queries(); ++query) {
    const auto first = of.rows.begin() + static_cast<std::ptrdiff_t>(query * of.width);
    numbers_.insert(numbers_.end(), first, first + static_cast<std::ptrdiff_t>(count_));
  }
  std::vector<std::uint32_t> distinct = numbers_;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  rows_ = distinct.size();
  std::vector<double> times(rows_);
  for (std::uint32_t& row : numbers_) {
    const auto at = std::ranges::lower_bound(distinct, row) - distinct.begin();
    row = static_cast<std::uint32_t>(at);
    times[row] += 1;
  }
  // A loss that was never seen may be there all the same, once in so many queries; or rows, of
  // which those count less that few want.
  const double pairs = static_cast<double>(numbers_.size());
  const double squares = std::inner_product(times.begin(), times.end(), times.begin(), 0.0);
  least_error_ = std::max(1 / static_cast<double>(of.queries()),
                          std::sqrt(unseen) * squares / (pairs * pairs));
}

Found MeanFound::at(std::size_t looks) const {
  std::vector<double> parts;
  for (std::size_t query = 0; query < of_.queries(); ++query) {
    const auto places = std::span(of_.places).subspan(query * of_.width, count_);
    const auto found =
        std::ranges::count_if(places, [looks](std::uint32_t place) { return place < looks; });
    parts.push_back(static_cast<double>(found) / static_cast<double>(count_));
  }
  const double mean =
      std::accumulate(parts.begin(), parts.end(), 0.0) / static_cast<double>(parts.size());
  const double error = std::max(std::sqrt(variance(parts, mean, looks)), least_error_);
  return {static_cast<float>(mean), static_cast<float>(std::min(1.0, error))};
}

// Clustered in two ways, by queries and by rows: V(queries) + V(rows) − V(pairs of both).
double MeanFound::variance(const std::vector<double>& parts, double mean, std::size_t looks) const {
  double of_queries = 0, of_rows = 0, of_pairs = 0;
  for (const double part : parts) of_queries += (part - mean) * (part - mean);
  const auto queries = static_cast<double>(parts.size()),
             pairs = static_cast<double>(numbers_.size());
  std::vector<double> sums(rows_);
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const std::uint32_t place = of_.places[i / count_ * of_.width + i % count_];
    const double off = (place < looks ? 1 : 0) - mean;
    sums[numbers_[i]] += off;
    of_pairs += off * off;
  }
  for (const double sum : sums) of_rows += sum * sum;
  return of_queries / (queries * queries) +
         unseen_ * std::max(0.0, of_rows - of_pairs) / (pairs * pairs);
}

}  // namespace warplite::index

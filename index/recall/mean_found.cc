#include "index/recall/mean_found.h"

#include <algorithm>
#include <cmath>

namespace warplite::index {
namespace {

class Mean {
 public:
  void add(double part) {
    sum_ += part;
    squares_ += part * part;
    ++count_;
  }
  // A loss that was never seen may be there all the same, once in so many rows.
  Found found() const {
    const double n = count_, mean = sum_ / n;
    const double variance = std::max(0.0, squares_ / n - mean * mean);
    return {static_cast<float>(mean),
            static_cast<float>(std::min(1.0, std::max(std::sqrt(variance / n), 1 / n)))};
  }

 private:
  double sum_ = 0, squares_ = 0, count_ = 0;
};

}  // namespace

std::vector<std::uint32_t> ladder(std::uint32_t most) {
  std::vector<std::uint32_t> steps;
  for (double step = 1; step + 0.5 < most; step = step < 8 ? step + 1 : step * std::sqrt(std::sqrt(2.0))) {
    steps.push_back(static_cast<std::uint32_t>(std::lround(step)));
  }
  steps.push_back(most);
  return steps;
}

Found mean_found(std::span<const std::uint32_t> places, std::size_t width, const Twins& twins,
                 std::size_t count, std::size_t looks) {
  const bool all_repeated = std::ranges::all_of(twins, [](auto n) { return n == kRepeated; });
  const auto part = [&](std::size_t query, std::size_t first) {
    const auto of = places.subspan(query * width + first, std::min(count, width - first));
    const auto found = std::ranges::count_if(of, [looks](std::uint32_t place) { return place < looks; });
    return static_cast<double>(found) / static_cast<double>(of.size());
  };
  Mean all, behind_twins;
  for (std::size_t query = 0; query < twins.size(); ++query) {
    if (twins[query] == kRepeated && !all_repeated) continue;
    all.add(part(query, 0));
    behind_twins.add(part(query, all_repeated ? 0 : twins[query]));
  }
  const Found with = all.found(), without = behind_twins.found();
  return with.part < without.part ? with : without;
}

}  // namespace warplite::index

#include "index/clustering/kmeans.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "core/process/interruption.h"
#include "index/clustering/grouped_kmeans.h"
#include "index/clustering/lloyd.h"

namespace warplite::index {
namespace {

// Rows per cluster, and iterations on them: most of the way is made on few rows.
struct Stage {
  std::size_t rows, iterations;
};
constexpr Stage kStages[] = {{32, 6}, {128, 4}, {kKmeansRows, 4}};
constexpr std::size_t kIterations = 14;  // of all stages

// splitmix64: the same numbers with every standard library.
class Random {
 public:
  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace

std::vector<std::size_t> random_order(std::size_t count, std::size_t wanted) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  wanted = std::min(wanted, count);
  Random random;
  SparsePoll poll;
  for (std::size_t i = 0; i < wanted; ++i) {
    poll();
    std::swap(order[i], order[i + random() % (count - i)]);
  }
  order.resize(wanted);
  return order;
}

std::vector<Reseed> reseed_empty(std::vector<std::uint32_t> counts) {
  std::vector<Reseed> reseeds;
  // The largest first, the lower of equal ones.
  std::priority_queue<std::pair<std::uint32_t, std::uint32_t>> donors;
  for (std::uint32_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 1) donors.emplace(counts[c], ~c);
  }
  std::vector<std::uint32_t> taken(counts.size());
  for (std::uint32_t c = 0; c < counts.size() && !donors.empty(); ++c) {
    if (counts[c] != 0) continue;
    const auto [rows, inverted] = donors.top();
    const std::uint32_t donor = ~inverted;
    donors.pop();
    reseeds.push_back({c, donor, taken[donor]++});
    if (rows / 2 > 1) donors.emplace(rows / 2, inverted);
  }
  return reseeds;
}

std::vector<float> kmeans(const TrainingTask& task, const SampleView& sample,
                          std::uint32_t clusters, bool roughly) {
  if (clusters > kMostTogether) return grouped_kmeans(task, sample, clusters);
  Lloyd lloyd(task, different_rows(sample, clusters), sample.dim);
  std::size_t done = 0;
  for (const Stage& stage : kStages) {
    // The last would be on the same rows.
    const bool again = stage.rows != kKmeansRows && stage.rows * clusters >= sample.rows;
    if (roughly && again && done != 0) continue;
    // A cluster without rows in this part of the sample may have some among the rows left out.
    const bool reseed = stage.rows == kKmeansRows;
    lloyd.run(sample.first(stage.rows * clusters), stage.iterations, reseed,
              [&](std::size_t i) { task.report("k-means", done + i, kIterations); });
    done += stage.iterations;
  }
  return lloyd.take();
}

}  // namespace warplite::index

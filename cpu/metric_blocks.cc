#include "cpu/metric_blocks.h"

#include <algorithm>
#include <utility>

#include "cpu/metric_state.h"

namespace warplite::cpu {
namespace {

using State = MetricState<compute::VectorMetric>;
using Claim = MetricClaim<compute::VectorMetric>;

bool indexable(const compute::Block& block) {
  return block.host != nullptr && block.live_rows != 0;
}

// Fewer may be rows that are not sealed, whose buffer lives as long as nothing changes.
constexpr std::uint32_t kLasting = 8192;
// Nanoseconds of a core that a search may spend on indexes that it alone is not worth.
constexpr double kAtOnce = 2e9;

// Of making those that are not there yet, about.
double nanoseconds_to_build(const compute::Workload& work) {
  const double distance = 1 + 0.1 * work.queries.dim;
  double sum = 0;
  for (const compute::Block& block : work.blocks) {
    if (!indexable(block) || State::of(*block.vectors).find() != nullptr) continue;
    sum += work.metric->cost(block.rows) * distance;
  }
  return sum;
}

struct Job {
  const compute::Block* block;
  std::unique_ptr<Claim> claim;
};

void build(compute::Device& host, const compute::Workload& work, std::vector<Job>& jobs) {
  if (jobs.empty()) return;
  ItemLoop loop(work.cancellation);
  const auto threads =
      static_cast<unsigned>(std::min<std::size_t>(jobs.size(), compute::thread_count()));
  loop.run(threads, jobs.size(), [&](unsigned thread, std::size_t i) {
    const compute::Block& block = *jobs[i].block;
    const MatrixView rows{block.host, block.rows, work.queries.dim, work.queries.type};
    LoopCancellation cancellation(loop, thread);
    jobs[i].claim->set(work.metric->build(host, rows, &cancellation));
  });
}

}  // namespace

MetricBlocks metric_blocks(compute::Device& host, const compute::Workload& work) {
  const bool little = nanoseconds_to_build(work) <= kAtOnce;
  std::vector<Job> jobs;
  for (const compute::Block& block : work.blocks) {
    if (!indexable(block)) continue;
    State& state = State::of(*block.vectors);
    const double compared =
        static_cast<double>(work.queries.rows) * static_cast<double>(block.live_rows);
    jobs.reserve(jobs.size() + 1);
    if (state.claim(work.metric->cost(block.rows), compared,
                    little && block.rows >= kLasting)) {
      jobs.push_back({&block, std::make_unique<Claim>(state)});
    }
  }
  build(host, work, jobs);
  jobs.clear();
  MetricBlocks out;
  for (const compute::Block& block : work.blocks) {
    auto metric = indexable(block) ? State::of(*block.vectors).find() : nullptr;
    if (metric != nullptr) {
      out.indexed.push_back({&block, std::move(metric)});
    } else {
      out.plain.push_back(block);
    }
  }
  return out;
}

}  // namespace warplite::cpu

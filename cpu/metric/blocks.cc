#include "cpu/metric/blocks.h"

#include <algorithm>
#include <utility>

#include "cpu/metric/state.h"

namespace warplite::cpu {
namespace {

using State = MetricState<compute::VectorMetric>;
using Claim = MetricClaim<compute::VectorMetric>;

bool indexable(const compute::Block& block) {
  return block.host != nullptr && block.live_rows != 0;
}

struct Job {
  const compute::Block* block;
  Claim claim;
};

// The distances to centres or pivots alone are as many.
bool few_live_rows(const compute::Block& block, const compute::VectorMetric& metric) {
  return block.live_rows <
         (metric.clusters != nullptr ? metric.clusters->count : metric.pivots->count);
}

void build(compute::Device& host, const compute::Workload& work, std::vector<Job>& jobs) {
  if (jobs.empty()) return;
  ItemLoop loop(work.cancellation);
  const auto threads =
      static_cast<unsigned>(std::min<std::size_t>(jobs.size(), compute::thread_count()));
  loop.run(threads, jobs.size(), [&](unsigned thread, std::size_t i) {
    const compute::Block& block = *jobs[i].block;
    const MatrixView rows{block.host, block.rows, work.queries.dim, work.queries.type};
    LoopCancellation cancellation(loop, thread);
    jobs[i].claim.set(work.metric->build(host, rows, &cancellation));
  });
}

}  // namespace

MetricBlocks metric_blocks(compute::Device& host, const compute::Workload& work) {
  const auto missing = compute::missing_metrics(work, work.blocks.size(), [&](std::size_t i) {
    const compute::Block& block = work.blocks[i];
    return indexable(block) && State::of(*block.vectors).find() == nullptr;
  });
  std::vector<Job> jobs;
  jobs.reserve(missing.size());  // what is claimed is kept, or free again
  compute::claim_missing(missing, [&](const compute::MissingMetric& one, bool at_once) {
    const compute::Block& block = work.blocks[one.which];
    auto claim = Claim::ask(State::of(*block.vectors), one, at_once);
    if (claim) jobs.push_back({&block, std::move(*claim)});
  });
  build(host, work, jobs);
  jobs.clear();
  MetricBlocks out;
  for (const compute::Block& block : work.blocks) {
    auto metric = indexable(block) ? State::of(*block.vectors).find() : nullptr;
    if (metric != nullptr && !few_live_rows(block, *metric)) {
      out.indexed.push_back({&block, std::move(metric)});
    } else {
      out.plain.push_back(block);
    }
  }
  return out;
}

}  // namespace warplite::cpu

#include "cpu/scan/worker.h"

#include <bit>

#include "cpu/scan/score_rows.h"

namespace warplite::cpu {

std::size_t next_live_rows(const std::uint64_t* live, std::uint32_t& at, std::uint32_t end,
                           std::size_t limit, std::uint32_t* rows) {
  std::size_t n = 0;
  if (live == nullptr) {
    while (n < limit && at < end) rows[n++] = at++;
    return n;
  }
  while (n < limit && at < end) {
    const std::uint64_t word = live[at / 64] >> (at % 64);
    if (word == 0) {
      std::uint32_t next = at / 64 + 1;
      const std::uint32_t words = (end + 63) / 64;
      while (next < words && live[next] == 0) ++next;
      at = next * 64;
      continue;
    }
    at += static_cast<std::uint32_t>(std::countr_zero(word));
    if (at < end) rows[n++] = at++;
  }
  at = std::min(at, end);
  return n;
}

Worker::Worker(SearchContext& context, unsigned number)
    : context_(context),
      number_(number),
      score_rows_(context.kernels.score(context.work.queries.type, context.work.distance)) {
  const std::size_t queries = context.queries.size();
  collectors_.reserve(queries);
  for (std::size_t q = 0; q < queries; ++q) {
    const double bound = context.thresholds.get(q);
    collectors_.push_back(context.k != 0 ? Collector::nearest(context.k_of(q), bound)
                                         : Collector::within(bound, context.expected));
  }
}

double Worker::threshold(std::size_t query) {
  Collector& collector = collectors_[query];
  collector.tighten(context_.thresholds.get(query));
  return collector.threshold();
}

void Worker::tighten(std::size_t query, double bound) {
  collectors_[query].tighten(bound);
  context_.thresholds.lower(query, bound);
}

std::size_t Worker::score(std::size_t query, const compute::Block& block,
                          const std::uint32_t* rows, std::size_t n) {
  if (scores_.size() < n) scores_.resize(n);
  score_rows_(context_.queries[query], vectors_of(block), rows, n, scores_.data());
  const compute::Workload& work = context_.work;
  Collector& collector = collectors_[query];
  const std::size_t cuts = context_.k != 0 ? collector.best().cuts() : 0;
  double threshold = this->threshold(query);
  double limit = score_limit(work.distance, threshold);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!(scores_[i] <= limit)) continue;
    const Hit hit{distance_of_score(work.distance, scores_[i]), block.rowids[rows[i]], block.id,
                  rows[i]};
    if (!work.admits(hit, query)) continue;
    collector.add(hit);
    ++kept;
    if (collector.threshold() < threshold) {
      threshold = collector.threshold();
      limit = score_limit(work.distance, threshold);
    }
  }
  if (context_.k != 0 && collector.best().cuts() != cuts) share(query, threshold);
  return kept;
}

void Worker::measure(std::size_t query, const compute::Block& block, const std::uint32_t* rows,
                     std::size_t n, double* distances) const {
  score_rows_(context_.queries[query], vectors_of(block), rows, n, distances);
  for (std::size_t i = 0; i < n; ++i) {
    distances[i] = distance_of_score(context_.work.distance, distances[i]);
  }
}

// Tells the other threads what this thread's hits say.
void Worker::share(std::size_t query, double threshold) {
  SharedThresholds& thresholds = context_.thresholds;
  thresholds.lower(query, threshold);
  const std::size_t part = thresholds.part(context_.k_of(query));
  if (part != 0) thresholds.share(query, number_, collectors_[query].best().distance_of(part));
}

}  // namespace warplite::cpu

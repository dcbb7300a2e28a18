#include "cpu/scan/scan.h"

#include <algorithm>

namespace warplite::cpu {
namespace {

// Rows that are looked at together stay in the first-level cache for the queries after the
// first; a single query only wants its few survivors near.
std::size_t group_rows(const MatrixView& queries) {
  constexpr std::size_t kGroupBytes = std::size_t{24} << 10;
  constexpr std::size_t kSingleBytes = std::size_t{96} << 10;
  const std::size_t bytes = queries.rows == 1 ? kSingleBytes : kGroupBytes;
  return std::clamp<std::size_t>(bytes / queries.stride(), 8, 1024);
}

}  // namespace

Scan::Scan(Worker& worker, const Screen* screen)
    : worker_(worker), screen_(screen), rows_(group_rows(worker.context().work.queries)) {
  if (screen_ == nullptr) return;
  kept_.resize(rows_.size());
  lows_.resize(rows_.size());
  dense_.assign(worker.context().queries.size(), true);  // until there is a threshold
}

void Scan::search(const Span& span) {
  const compute::Workload& work = worker_.context().work;
  const compute::Block& block = *span.block;
  const std::size_t queries = worker_.context().queries.size();
  std::uint32_t at = span.begin;
  while (const std::size_t n =
             next_live_rows(block.live, at, span.end, rows_.size(), rows_.data())) {
    for (std::size_t q = 0; q < queries; ++q) {
      if (worker_.stopped()) return;
      if (const std::uint64_t* own = own_live(work, q, block)) {
        std::uint32_t first = rows_[0];
        own_.resize(rows_.size());
        visit(q, block, own_.data(), next_live_rows(own, first, rows_[n - 1] + 1, n, own_.data()));
      } else {
        visit(q, block, rows_.data(), n);
      }
    }
  }
}

void Scan::visit(std::size_t query, const compute::Block& block, const std::uint32_t* rows,
                 std::size_t n) {
  if (n == 0) return;
  if (screen_ == nullptr) {
    worker_.score(query, block, rows, n);
  } else if (dense_[query]) {
    dense_[query] = 2 * worker_.score(query, block, rows, n) > n;
  } else {
    const std::size_t kept = screen_->keep(query, worker_.threshold(query), vectors_of(block),
                                           rows, n, lows_.data(), kept_.data());
    if (kept != 0) worker_.score(query, block, kept_.data(), kept);
    dense_[query] = 2 * kept > n;
  }
}

}  // namespace warplite::cpu

#include "cpu/scan/nominator.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/runtime/ask_for.h"

namespace warplite::cpu {
namespace {

// Measured: for fewer, scanning wins; of those with rows of their own, a row has to be in so many.
constexpr std::size_t kFewestQueries = 6, kFewestOwners = 3;
constexpr std::size_t kFewestRows = 64;
constexpr std::size_t kLargestDeferredK = 1024;  // beyond, candidates take too much memory
constexpr std::size_t kAskedBytes = 512;         // of a row that is soon to be scored
constexpr double kInfinity = std::numeric_limits<double>::infinity();

HWY_INLINE void ask_for_candidates(const compute::Workload& work, const Nominator::Pending& pending) {
  const std::size_t stride = work.queries.stride();
  for (const Nominator::Candidate& candidate : pending.candidates) {
    const std::byte* row = vectors_of(work.blocks[candidate.block]) + candidate.row * stride;
    ask_for_lines(row, row + std::min(stride, kAskedBytes));
  }
}

BoundedProduct::Vectors sample_rows(const compute::Workload& work) {
  constexpr std::size_t kRows = BoundedProduct::kSampleRows;
  BoundedProduct::Vectors rows;
  const std::size_t blocks = std::max<std::size_t>(1, work.blocks.size());
  const std::size_t per_block = std::max<std::size_t>(1, kRows / blocks);
  const std::size_t step = std::max<std::size_t>(1, blocks / kRows);
  for (std::size_t b = 0; b < work.blocks.size(); b += step) {
    const compute::Block& block = work.blocks[b];
    const std::uint32_t stride =
        std::max<std::uint32_t>(1, block.rows / static_cast<std::uint32_t>(per_block));
    for (std::uint32_t at = 0; at < block.rows;) {
      std::uint32_t row = 0;
      const std::uint32_t begin = at;
      if (next_live_rows(block.live, at, block.rows, 1, &row) == 0) break;
      rows.push_back(vectors_of(block) + row * work.queries.stride());
      at = std::max(at, begin + stride);
    }
  }
  return rows;
}

}  // namespace

// Pairs of a query and a row that takes part for it.
std::uint64_t compared(const compute::Workload& work, std::size_t live_rows) {
  if (work.own.empty()) return std::uint64_t{live_rows} * work.queries.rows;
  std::uint64_t pairs = 0;
  for (const compute::OwnTerms& own : work.own) pairs += own.live_rows;
  return pairs;
}

// Whether a near row counts for every query: ranges may have a lower end.
bool begin_anywhere(const compute::Workload& work) {
  const auto does = [](const compute::OwnTerms& own) { return own.range.low == -kInfinity; };
  return work.own.empty() ? work.range.low == -kInfinity
                          : std::all_of(work.own.begin(), work.own.end(), does);
}

// Counting again and again costs less than selection, whose branches nobody can predict.
double bound_of(const std::vector<float>& keys, std::size_t k) {
  const auto [least, greatest] = std::minmax_element(keys.begin(), keys.end());
  float low = *least, high = *greatest;
  for (int round = 0; round < 16; ++round) {
    const float middle = low + (high - low) / 2;
    unsigned within = 0;
    for (const float key : keys) within += static_cast<unsigned>(key <= middle);
    (within >= k ? high : low) = middle;
    if (within >= k && within - k <= k / 16) break;
  }
  // The keys were rounded.
  return high + std::fabs(static_cast<double>(high)) * 0x1p-22 + 0x1p-140;
}

bool Nominator::suits(const compute::Workload& work, std::size_t k, std::size_t live_rows) {
  if (!BoundedProduct::suits(work.distance, work.queries.dim)) return false;
  if (live_rows < kFewestRows || work.has_after) return false;
  const std::size_t fewest = work.own.empty() ? kFewestQueries : kFewestOwners;
  if (compared(work, live_rows) < fewest * std::uint64_t{live_rows}) return false;
  // If a good part of the rows is wanted, all would be nominated.
  if (k == 0) return work.range.high < kInfinity;
  return k <= live_rows / 16;
}

Nominator::Nominator(const SearchContext& context, bool keeps)
    : context_(context),
      gemm_(context.kernels.gemm),
      product_(gemm_, gemm_.panel_for(context.work.queries.rows), context.work.distance,
               context.work.queries.type, context.work.queries.dim, sample_rows(context.work),
               BoundedProduct::sample_of(context.work.queries)) {
  const std::size_t k = context_.k;
  deferred_ = k != 0 && (keeps || k <= kLargestDeferredK) && begin_anywhere(context_.work);
  product_.pack_queries(context_.work.queries, &queries_);
}

Nominator::Tile Nominator::make_tile() const {
  Tile tile;
  tile.rows.resize(tile_rows());
  tile.packed = product_.make_rows(tile_rows());
  tile.dots = Bytes(product_.dots_bytes());
  tile.found.resize(tile_rows());
  tile.scored.resize(deferred_ ? most_kept(context_.k) : 0);
  tile.pending.resize(queries_.bounds.size());
  return tile;
}

// The bytes of the tile that begins at a row, as far as rows follow one another there.
std::span<const std::byte> Nominator::next_rows(const Span& span, std::uint32_t row) const {
  const std::size_t stride = context_.work.queries.stride();
  const std::size_t rows = std::min<std::size_t>(span.end - row, tile_rows());
  return {vectors_of(*span.block) + row * stride, rows * stride};
}

void Nominator::search(Worker& worker, Tile& tile, const Span& span) const {
  const std::size_t queries = queries_.bounds.size(), panels = product_.panels_of(queries);
  float* const dots = reinterpret_cast<float*>(tile.dots.data());
  std::uint32_t at = span.begin;
  while (true) {
    tile.rows.resize(tile_rows());
    tile.rows.resize(next_live_rows(span.block->live, at, span.end, tile_rows(), tile.rows.data()));
    if (tile.rows.empty()) return;
    product_.pack_rows(vectors_of(*span.block), tile.rows.data(), tile.rows.size(), &tile.packed);
    for (std::size_t panel = 0; panel < panels; panel += product_.panel_group()) {
      if (worker.stopped()) return;
      const std::size_t group = std::min(product_.panel_group(), panels - panel);
      product_.multiply(queries_, panel, group, tile.packed, tile.rows.size(), dots,
                        panel == 0 ? next_rows(span, at) : std::span<const std::byte>{});
      const std::size_t first = panel * product_.panel_queries();
      const std::size_t end = std::min(queries, first + group * product_.panel_queries());
      for (std::size_t q = first; q < end; ++q) {
        select(worker, q, dots + (q - first) * tile_rows(), *span.block, tile);
      }
    }
  }
}

void Nominator::select(Worker& worker, std::size_t query, const float* dots,
                       const compute::Block& block, Tile& tile) const {
  Pending& pending = tile.pending[query];
  update_offset(worker, query, pending);
  const BoundedProduct::Query& q = queries_.bounds[query];
  std::size_t found = gemm_.survivors(dots, tile.packed.halves.data(), tile.packed.norms.data(),
                                      product_.padded_rows(tile.rows.size()), q.slack,
                                      pending.offset, tile.found.data());
  // The padding of the last tile.
  while (found > 0 && tile.found[found - 1] >= tile.rows.size()) --found;
  if (const std::uint64_t* own = own_live(context_.work, query, block)) {
    found = keep_own(own, found, tile);
  }
  if (found == 0) return;
  if (deferred_ && q.usable) return defer(worker, query, dots, block, found, tile);
  for (std::size_t i = 0; i < found; ++i) tile.found[i] = tile.rows[tile.found[i]];
  worker.score(query, block, tile.found.data(), found);
}

// Those of tile.found[0..found) that take part for a query.
std::size_t Nominator::keep_own(const std::uint64_t* own, std::size_t found, Tile& tile) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t r = tile.found[i], row = tile.rows[r];
    tile.found[kept] = r;
    kept += own[row / 64] >> (row % 64) & 1;
  }
  return kept;
}

// Rows whose norm is out of range have no bounds and are scored at once.
void Nominator::defer(Worker& worker, std::size_t query, const float* dots,
                      const compute::Block& block, std::size_t found, Tile& tile) const {
  Pending& pending = tile.pending[query];
  const std::size_t most = most_kept(context_.k_of(query));
  if (pending.candidates.capacity() == 0) pending.candidates.reserve(most);
  const auto number = static_cast<std::uint32_t>(&block - context_.work.blocks.data());
  if (pending.candidates.size() + found >= most) {
    tighten(worker, query, dots, found, tile);
  }
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t r = tile.found[i];
    if (tile.packed.halves[r] == -std::numeric_limits<float>::infinity()) {
      worker.score(query, block, &tile.rows[r], 1);
      continue;
    }
    const BoundedProduct::Bounds key = bounds(query, dots, r, tile);
    if (key.low > pending.farthest()) continue;  // the threshold has fallen since
    pending.candidates.push_back({key.low, key.high, number, tile.rows[r]});
    if (pending.candidates.size() < most) continue;
    tighten(worker, query, dots, 0, tile);
    // Bounds that do not tell them apart: their distances do.
    if (pending.candidates.size() + 4 > most) score(worker, query, tile);
  }
}

BoundedProduct::Bounds Nominator::bounds(std::size_t query, const float* dots, std::uint32_t row,
                                         const Tile& tile) const {
  return BoundedProduct::bounds(queries_.bounds[query], dots[row], tile.packed.halves[row],
                                tile.packed.norms[row]);
}

// Tightens the threshold by the candidates and tile.found[0..found).
void Nominator::tighten(Worker& worker, std::size_t query, const float* dots, std::size_t found,
                        Tile& tile) const {
  Pending& pending = tile.pending[query];
  tile.keys.clear();
  for (const Candidate& candidate : pending.candidates) {
    tile.keys.push_back(to_float(candidate.high));
  }
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t r = tile.found[i];
    if (tile.packed.halves[r] == -std::numeric_limits<float>::infinity()) continue;
    tile.keys.push_back(to_float(bounds(query, dots, r, tile).high));
  }
  const std::size_t k = context_.k_of(query);
  if (tile.keys.size() < k) return;
  worker.tighten(query, product_.farthest(queries_.bounds[query], bound_of(tile.keys, k)));
  update_offset(worker, query, pending);
  drop_distant(pending);
}

void Nominator::update_offset(Worker& worker, std::size_t query, Pending& pending) const {
  const double threshold = worker.threshold(query);
  if (threshold == pending.threshold) return;
  pending.threshold = threshold;
  pending.offset = product_.offset(queries_.bounds[query], threshold);
}

void Nominator::drop_distant(Pending& pending) const {
  const double most = pending.farthest();
  std::erase_if(pending.candidates, [most](const Candidate& c) { return c.low > most; });
}

// Scores the candidates, those of one block together.
void Nominator::score(Worker& worker, std::size_t query, Tile& tile) const {
  std::vector<Candidate>& candidates = tile.pending[query].candidates;
  for (std::size_t i = 0; i < candidates.size();) {
    const std::uint32_t block = candidates[i].block;
    std::size_t n = 0;
    while (i < candidates.size() && candidates[i].block == block) {
      tile.scored[n++] = candidates[i++].row;
    }
    worker.score(query, context_.work.blocks[block], tile.scored.data(), n);
  }
  candidates.clear();
}

void Nominator::drop_distant(Worker& worker, std::size_t query, Pending& pending) const {
  update_offset(worker, query, pending);
  drop_distant(pending);
}

void Nominator::finish(Worker& worker, Tile& tile) const {
  for (std::size_t q = 0; q < queries_.bounds.size(); ++q) {
    if (worker.stopped()) return;
    drop_distant(worker, q, tile.pending[q]);
    if (q + 1 < queries_.bounds.size()) ask_for_candidates(context_.work, tile.pending[q + 1]);
    score(worker, q, tile);
  }
}

}  // namespace warplite::cpu

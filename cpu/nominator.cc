#include "cpu/nominator.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace warplite::cpu {
namespace {

constexpr double kUnit = 0x1p-24;           // rounding of float32
constexpr double kLargestSquare = 0x1p80;   // of a norm that cannot overflow
constexpr double kFloor = 0x1p-40;
constexpr std::size_t kFewestQueries = 7;   // measured: below, scanning wins
constexpr std::size_t kFewestRows = 64;
constexpr std::uint32_t kLargestDim = 1u << 16;
constexpr std::size_t kDepth = 512;         // elements multiplied between visits of the sums
constexpr std::size_t kTileBytes = 256 << 10;
constexpr std::size_t kTileRows = 512;
constexpr std::size_t kLargestDeferredK = 1024;  // beyond, candidates take too much memory
constexpr std::size_t kDotsBytes = 64 << 10;
constexpr std::size_t kAskedBytes = 512;    // of a row that is soon to be scored
constexpr std::size_t kSampleRows = 64;
constexpr std::size_t kGroupSteps = std::size_t{1} << 26;  // multiply-adds between looks at `stop`
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Saturates to infinity.
float to_float(double value) {
  constexpr double kMax = std::numeric_limits<float>::max();
  if (value > kMax) return std::numeric_limits<float>::infinity();
  if (value < -kMax) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(value);
}

// What at least k of the keys do not exceed, and not many more than k. Counting again and again
// costs less than selection, whose branches nobody can predict.
double bound_of(std::vector<float>& keys, std::size_t k) {
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

// The power of two that brings `norm` near 1, within what float32 multiplies exactly.
double scale_for(double norm) {
  if (!(norm > 0) || !std::isfinite(norm)) return 1;
  return std::ldexp(1.0, std::clamp(-std::ilogb(norm), -120, 120));
}

std::vector<const std::byte*> sample_rows(const compute::Workload& work) {
  std::vector<const std::byte*> rows;
  const std::size_t per_block = std::max<std::size_t>(1, kSampleRows / std::max<std::size_t>(
                                                                           1, work.blocks.size()));
  const std::size_t step = std::max<std::size_t>(1, work.blocks.size() / kSampleRows);
  for (std::size_t b = 0; b < work.blocks.size(); b += step) {
    const compute::Block& block = work.blocks[b];
    const std::uint32_t stride =
        std::max<std::uint32_t>(1, block.rows / static_cast<std::uint32_t>(per_block));
    for (std::uint32_t at = 0; at < block.rows;) {
      std::uint32_t row = 0;
      const std::uint32_t begin = at;
      if (next_live_rows(block, at, block.rows, 1, &row) == 0) break;
      rows.push_back(vectors_of(block) + row * work.queries.stride());
      at = std::max(at, begin + stride);
    }
  }
  return rows;
}

double largest_norm(const compute::Workload& work, const std::vector<const std::byte*>& vectors,
                    const std::vector<float>& centre) {
  double largest = 0;
  for (const std::byte* vector : vectors) {
    double square = 0;
    for (std::size_t i = 0; i < work.queries.dim; ++i) {
      const double shift = centre.empty() ? 0.0 : static_cast<double>(centre[i]);
      const double value = element_at(work.queries.type, vector, i) - shift;
      square += value * value;
    }
    largest = std::max(largest, square);
  }
  return std::sqrt(largest);
}

std::vector<float> mean_of(const compute::Workload& work,
                           const std::vector<const std::byte*>& vectors) {
  std::vector<float> mean(work.queries.dim);
  for (std::size_t i = 0; i < mean.size() && !vectors.empty(); ++i) {
    double sum = 0;
    for (const std::byte* vector : vectors) sum += element_at(work.queries.type, vector, i);
    mean[i] = to_float(sum / static_cast<double>(vectors.size()));
  }
  return mean;
}

}  // namespace

bool Nominator::suits(const compute::Workload& work, std::size_t k, std::size_t live_rows) {
  const Distance distance = work.distance;
  if (distance != Distance::kL2 && distance != Distance::kInnerProduct &&
      distance != Distance::kCosine) {
    return false;
  }
  if (work.queries.rows < kFewestQueries || live_rows < kFewestRows) return false;
  if (work.has_after || work.queries.dim > kLargestDim) return false;
  // Where a good part of the rows is wanted, all would be nominated.
  if (k == 0) return work.range.high < kInfinity;
  return k <= live_rows / 16;
}

Nominator::Nominator(const SearchContext& context)
    : context_(context), gemm_(context.kernels.gemm), dim_(context.work.queries.dim) {
  const std::size_t fitting = kTileBytes / (dim_ * sizeof(float)) / gemm_.rows * gemm_.rows;
  tile_rows_ = std::clamp(fitting, gemm_.rows, kTileRows);
  const std::size_t panel_dots = tile_rows_ * gemm_.queries;
  panel_group_ = std::max<std::size_t>(1, std::min(kDotsBytes / (panel_dots * sizeof(float)),
                                                   kGroupSteps / (panel_dots * dim_)));
  // With a lower end to the range, a near row need not count.
  const std::size_t k = context_.k;
  const bool deferred =
      k != 0 && k <= kLargestDeferredK && context_.work.range.low == -kInfinity;
  most_pending_ = deferred ? k + std::max<std::size_t>(8, k / 2) : 0;
  choose_centre_and_scale();
  pack_queries();
}

void Nominator::choose_centre_and_scale() {
  const compute::Workload& work = context_.work;
  if (work.distance == Distance::kCosine) return;
  const auto rows = sample_rows(work);
  if (work.distance == Distance::kL2) centre_ = mean_of(work, rows);
  std::vector<const std::byte*> queries;
  const std::size_t step = work.queries.rows / kSampleRows + 1;
  for (std::size_t q = 0; q < work.queries.rows; q += step) queries.push_back(work.queries.row(q));
  const double row_norm = largest_norm(work, rows, centre_);
  const double query_norm = largest_norm(work, queries, centre_);
  row_scale_ = scale_for(row_norm > 0 ? row_norm : query_norm);
  query_scale_ = work.distance == Distance::kL2 ? row_scale_ : scale_for(query_norm);
}

void Nominator::pack_queries() {
  const MatrixView& queries = context_.work.queries;
  const std::size_t width = gemm_.queries;
  const bool unit = context_.work.distance == Distance::kCosine;
  const PackSource source{queries.type, dim_, centre_.empty() ? nullptr : centre_.data(),
                          static_cast<float>(query_scale_), unit};
  queries_.resize(queries.rows);
  panels_ = Bytes(round_up(queries.rows, width) * dim_ * sizeof(float));
  float* packed = reinterpret_cast<float*>(panels_.data());
  std::vector<const std::byte*> vectors(width);
  std::vector<double> squares(width);
  for (std::size_t first = 0; first < queries.rows; first += width) {
    for (std::size_t i = 0; i < width; ++i) {
      vectors[i] = first + i < queries.rows ? queries.row(first + i) : nullptr;
    }
    gemm_.pack(source, vectors.data(), width, packed + first * dim_, squares.data());
    for (std::size_t i = 0; i < width && first + i < queries.rows; ++i) {
      Query& query = queries_[first + i];
      query.square = unit ? (squares[i] > 0 ? 1 : 0) : squares[i];
      query.usable = query.square <= kLargestSquare;
      const double gamma = 1.02 * (dim_ + 16.0) * kUnit;
      query.slack = to_float(gamma * (std::sqrt(query.square) * (1 + 0x1p-20) + kFloor));
    }
  }
}

Nominator::Tile Nominator::make_tile() const {
  Tile tile;
  tile.rows.resize(tile_rows_);
  tile.packed = Bytes(tile_rows_ * dim_ * sizeof(float));
  tile.squares.resize(gemm_.rows);
  tile.halves.resize(tile_rows_);
  tile.norms.resize(tile_rows_);
  tile.dots = Bytes(panel_group_ * gemm_.queries * tile_rows_ * sizeof(float));
  tile.found.resize(tile_rows_);
  tile.scored.resize(most_pending_);
  tile.pending.resize(queries_.size());
  return tile;
}

void Nominator::search(Worker& worker, Tile& tile, const Span& span) const {
  const std::size_t panels = round_up(queries_.size(), gemm_.queries) / gemm_.queries;
  std::uint32_t at = span.begin;
  while (true) {
    tile.rows.resize(tile_rows_);
    tile.rows.resize(next_live_rows(*span.block, at, span.end, tile_rows_, tile.rows.data()));
    if (tile.rows.empty()) return;
    pack_rows(*span.block, tile);
    for (std::size_t panel = 0; panel < panels; panel += panel_group_) {
      if (worker.stopped()) return;
      const std::size_t group = std::min(panel_group_, panels - panel);
      multiply(panel, group, tile);
      const float* dots = reinterpret_cast<const float*>(tile.dots.data());
      const std::size_t first = panel * gemm_.queries;
      const std::size_t end = std::min(queries_.size(), first + group * gemm_.queries);
      for (std::size_t q = first; q < end; ++q) {
        select(worker, q, dots + (q - first) * tile_rows_, *span.block, tile);
      }
    }
  }
}

void Nominator::pack_rows(const compute::Block& block, Tile& tile) const {
  const MatrixView& queries = context_.work.queries;
  const bool unit = context_.work.distance == Distance::kCosine;
  const bool l2 = context_.work.distance == Distance::kL2;
  const PackSource source{queries.type, dim_, centre_.empty() ? nullptr : centre_.data(),
                          static_cast<float>(row_scale_), unit};
  float* packed = reinterpret_cast<float*>(tile.packed.data());
  std::vector<const std::byte*> vectors(gemm_.rows);
  for (std::size_t first = 0; first < tile.rows.size(); first += gemm_.rows) {
    for (std::size_t i = 0; i < gemm_.rows; ++i) {
      const bool present = first + i < tile.rows.size();
      vectors[i] =
          present ? vectors_of(block) + tile.rows[first + i] * queries.stride() : nullptr;
    }
    gemm_.pack(source, vectors.data(), gemm_.rows, packed + first * dim_, tile.squares.data());
    for (std::size_t i = 0; i < gemm_.rows; ++i) {
      const double square = unit ? 1 : tile.squares[i];
      const bool usable = square <= kLargestSquare;
      tile.norms[first + i] =
          usable ? to_float(std::sqrt(square) * (1 + 0x1p-20) + kFloor) : 1.0f;
      tile.halves[first + i] = to_float(!usable ? -kInfinity
                                        : l2    ? square / 2 * (1 - 32 * kUnit)
                                                : 0);
    }
  }
}

void Nominator::multiply(std::size_t first_panel, std::size_t panels, Tile& tile) const {
  const std::size_t width = gemm_.queries;
  const auto* queries = reinterpret_cast<const float*>(panels_.data()) + first_panel * width * dim_;
  const auto* rows = reinterpret_cast<const float*>(tile.packed.data());
  auto* dots = reinterpret_cast<float*>(tile.dots.data());
  const std::size_t used = round_up(tile.rows.size(), gemm_.rows);
  for (std::size_t at = 0; at < dim_; at += kDepth) {
    const std::size_t depth = std::min<std::size_t>(kDepth, dim_ - at);
    for (std::size_t r = 0; r < used; r += gemm_.rows) {
      for (std::size_t p = 0; p < panels; ++p) {
        gemm_.multiply(queries + (p * dim_ + at) * width, rows + r * dim_ + at * gemm_.rows, depth,
                       at != 0, dots + p * width * tile_rows_ + r, tile_rows_);
      }
    }
  }
}

float Nominator::offset(std::size_t query, double threshold) const {
  const Query& q = queries_[query];
  if (!q.usable) return -std::numeric_limits<float>::infinity();
  double value = 0;
  if (context_.work.distance == Distance::kInnerProduct) {
    value = -threshold * row_scale_ * query_scale_;
  } else if (threshold < 0) {
    value = kInfinity;
  } else if (context_.work.distance == Distance::kCosine) {
    value = 1 - threshold;
  } else {
    const double scaled = threshold * row_scale_;
    value = q.square / 2 * (1 - 32 * kUnit) - scaled * scaled / 2 * (1 + 0x1p-28);
  }
  return to_float(value - 8 * kUnit * std::fabs(value));
}

double Nominator::farthest(std::size_t query, double key) const {
  switch (context_.work.distance) {
    case Distance::kInnerProduct: {
      const double bound = key / row_scale_ / query_scale_;
      return bound + 0x1p-20 * std::fabs(bound);
    }
    case Distance::kCosine: return std::max(0.0, 1 + key);
    default: {
      const double half = queries_[query].square / 2 * (1 + 40 * kUnit) + key;
      return std::sqrt(std::max(0.0, 2 * half)) * (1 + 0x1p-20) / row_scale_;
    }
  }
}

void Nominator::select(Worker& worker, std::size_t query, const float* dots,
                       const compute::Block& block, Tile& tile) const {
  Pending& pending = tile.pending[query];
  update_offset(worker, query, pending);
  const Query& q = queries_[query];
  std::size_t found = gemm_.survivors(dots, tile.halves.data(), tile.norms.data(),
                                      round_up(tile.rows.size(), gemm_.rows), q.slack,
                                      pending.offset, tile.found.data());
  // The padding of the last tile.
  while (found > 0 && tile.found[found - 1] >= tile.rows.size()) --found;
  if (found == 0) return;
  if (most_pending_ != 0 && q.usable) return defer(worker, query, dots, block, found, tile);
  for (std::size_t i = 0; i < found; ++i) tile.found[i] = tile.rows[tile.found[i]];
  worker.score(query, block, tile.found.data(), found);
}

// Rows whose norm is out of range have no bounds and are scored at once.
void Nominator::defer(Worker& worker, std::size_t query, const float* dots,
                      const compute::Block& block, std::size_t found, Tile& tile) const {
  Pending& pending = tile.pending[query];
  if (pending.candidates.capacity() == 0) pending.candidates.reserve(most_pending_);
  const auto number = static_cast<std::uint32_t>(&block - context_.work.blocks.data());
  if (pending.candidates.size() + found >= most_pending_) {
    tighten(worker, query, dots, found, tile);
  }
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t r = tile.found[i];
    if (tile.halves[r] == -std::numeric_limits<float>::infinity()) {
      worker.score(query, block, &tile.rows[r], 1);
      continue;
    }
    const Bounds key = bounds(query, dots, r, tile);
    if (key.low > pending.farthest()) continue;  // the threshold has fallen since
    pending.candidates.push_back({key.low, key.high, number, tile.rows[r]});
    if (pending.candidates.size() < most_pending_) continue;
    tighten(worker, query, dots, 0, tile);
    // Bounds that do not tell them apart: their distances do.
    if (pending.candidates.size() + 4 > most_pending_) score(worker, query, tile);
  }
}

Nominator::Bounds Nominator::bounds(std::size_t query, const float* dots, std::uint32_t row,
                                    const Tile& tile) const {
  const double half = tile.halves[row];
  const double margin = static_cast<double>(queries_[query].slack) * tile.norms[row];
  return {half - dots[row] - margin, half * (1 + 80 * kUnit) - dots[row] + margin};
}

// Of the candidates and of tile.found[0..found).
void Nominator::tighten(Worker& worker, std::size_t query, const float* dots, std::size_t found,
                        Tile& tile) const {
  Pending& pending = tile.pending[query];
  tile.keys.clear();
  for (const Candidate& candidate : pending.candidates) {
    tile.keys.push_back(to_float(candidate.high));
  }
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t r = tile.found[i];
    if (tile.halves[r] == -std::numeric_limits<float>::infinity()) continue;
    tile.keys.push_back(to_float(bounds(query, dots, r, tile).high));
  }
  if (tile.keys.size() < context_.k) return;
  worker.tighten(query, farthest(query, bound_of(tile.keys, context_.k)));
  update_offset(worker, query, pending);
  drop_distant(pending);
}

void Nominator::update_offset(Worker& worker, std::size_t query, Pending& pending) const {
  const double threshold = worker.threshold(query);
  if (threshold == pending.threshold) return;
  pending.threshold = threshold;
  pending.offset = offset(query, threshold);
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

void Nominator::ask_for_candidates(const Pending& pending) const {
  const std::size_t stride = context_.work.queries.stride();
  for (const Candidate& candidate : pending.candidates) {
    const std::byte* row =
        vectors_of(context_.work.blocks[candidate.block]) + candidate.row * stride;
    for (std::size_t at = 0; at < std::min(stride, kAskedBytes); at += 64) {
      __builtin_prefetch(row + at);
    }
  }
}

void Nominator::finish(Worker& worker, Tile& tile) const {
  for (std::size_t q = 0; q < queries_.size(); ++q) {
    if (worker.stopped()) return;
    Pending& pending = tile.pending[q];
    update_offset(worker, q, pending);
    drop_distant(pending);
    if (q + 1 < queries_.size()) ask_for_candidates(tile.pending[q + 1]);
    score(worker, q, tile);
  }
}

}  // namespace warplite::cpu

#include "cpu/ivf/rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "cpu/ivf/rabitq_kernels.h"
#include "cpu/scan/score_rows.h"
#include "cpu/scan/worker.h"

namespace warplite::cpu {
namespace {

// Copies of rows that are scored together stay in the first-level cache.
constexpr std::size_t kCopyBytes = std::size_t{12} << 10;

HWY_INLINE void ask_for_row(const RowPlace& place, std::size_t stride) {
  const std::byte* row = vectors_of(*place.block) + place.row * stride;
  for (std::size_t at = 0; at < stride; at += 64) __builtin_prefetch(row + at);
}

}  // namespace

RowMap::RowMap(std::span<const compute::IvfRun> runs) {
  std::uint64_t rows = 0;
  std::size_t blocks = 0;
  for (const compute::IvfRun& run : runs) blocks += run.blocks.size();
  firsts_.reserve(runs.size());
  starts_.reserve(blocks + 1);
  blocks_.reserve(blocks);
  for (const compute::IvfRun& run : runs) {
    firsts_.push_back(static_cast<std::uint32_t>(rows));
    for (const compute::Block& block : run.blocks) {
      if (block.rows == 0) continue;
      starts_.push_back(static_cast<std::uint32_t>(rows));
      blocks_.push_back(&block);
      all_live_ = all_live_ && block.live == nullptr;
      rows += block.rows;
      if (rows > std::numeric_limits<std::uint32_t>::max()) {
        throw Error(ErrorKind::kLimit, "an inverted file of more than 4294967295 rows");
      }
    }
  }
  rows_ = static_cast<std::uint32_t>(rows);
  starts_.push_back(rows_);
  while ((std::size_t{rows_} >> shift_) > 2 * blocks_.size()) ++shift_;
  guesses_.reserve((std::size_t{rows_} >> shift_) + 1);
  std::uint32_t block = 0;
  for (std::uint64_t ordinal = 0; ordinal < rows; ordinal += std::uint64_t{1} << shift_) {
    while (ordinal >= starts_[block + 1]) ++block;
    guesses_.push_back(block);
  }
}

// Blocks begin anywhere in a word.
void RowMap::gather_live() {
  if (!live_.empty()) return;
  live_.resize(std::size_t{rows_} / 64 + 2);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const compute::Block& block = *blocks_[i];
    const unsigned shift = starts_[i] % 64;
    std::uint64_t* to = &live_[starts_[i] / 64];
    for (std::uint32_t row = 0; row < block.rows; row += 64, ++to) {
      std::uint64_t word = block.live == nullptr ? ~std::uint64_t{0} : block.live[row / 64];
      if (block.rows - row < 64) word &= (std::uint64_t{1} << (block.rows - row)) - 1;
      to[0] |= word << shift;
      if (shift != 0) to[1] |= word >> (64 - shift);
    }
  }
}

std::uint32_t RowMap::count_live(std::span<const std::uint32_t> ordinals,
                                 std::uint32_t first) const {
  constexpr std::size_t kGroups = 8, kRows = compute::RabitqGroup::kRows;
  std::uint32_t live = 0, bits[kGroups];
  std::size_t at = 0;
  while (ordinals.size() - at >= kRows) {
    const std::size_t groups = std::min(kGroups, (ordinals.size() - at) / kRows);
    rabitq_kernels().live(&ordinals[at], groups, live_.data(), first, bits);
    for (std::size_t g = 0; g < groups; ++g)
      live += static_cast<std::uint32_t>(std::popcount(bits[g]));
    at += groups * kRows;
  }
  for (; at < ordinals.size(); ++at) live += lives(first + ordinals[at]) ? 1 : 0;
  return live;
}

RowScorer::RowScorer(const compute::Workload& work, const ScanKernels& kernels,
                     const QuerySet& queries, const Screen* screen)
    : distance_(work.distance),
      stride_(work.queries.stride()),
      score_(kernels.score(work.queries.type, work.distance)),
      queries_(queries),
      screen_(screen),
      most_(stride_ >= kLongRow ? 1 : std::clamp<std::size_t>(kCopyBytes / stride_, 4, 256)) {}

// Most often few rows are compared: memory for many takes longer.
void RowScorer::make_room(std::size_t rows) {
  if (rows <= all_.size()) return;
  if (most_ != 1) copies_ = Bytes(rows * stride_);
  all_.resize(rows);
  std::iota(all_.begin(), all_.end(), 0u);
  kept_.resize(rows);
  lows_.resize(rows);
  scores_.resize(rows);
}

void RowScorer::add(std::span<const RowPlace> rows, std::span<const Target> targets) {
  make_room(std::min(most_, rows.size()));
  for (std::size_t i = 0; i < std::min(rows.size(), rows_ahead(stride_)); ++i) {
    if (most_ != 1) ask_for_row(rows[i], stride_);
  }
  for (std::size_t first = 0; first < rows.size(); first += most_) {
    const std::size_t n = std::min(most_, rows.size() - first);
    const std::byte* vectors = gather(rows, first, n);
    for (const Target& target : targets) add_near(target, &rows[first], vectors, n);
  }
}

// all[first, first + n) one after another.
const std::byte* RowScorer::gather(std::span<const RowPlace> all, std::size_t first,
                                   std::size_t n) {
  if (most_ == 1) return vectors_of(*all[first].block) + all[first].row * stride_;
  const std::size_t ahead = rows_ahead(stride_);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t soon = first + i + ahead;
    if (soon < all.size()) ask_for_row(all[soon], stride_);
    const RowPlace& place = all[first + i];
    std::memcpy(copies_.data() + i * stride_, vectors_of(*place.block) + place.row * stride_,
                stride_);
  }
  return copies_.data();
}

void RowScorer::add_near(const Target& target, const RowPlace* rows, const std::byte* vectors,
                         std::size_t n) {
  TopK& best = *target.best;
  constexpr double kAll = std::numeric_limits<double>::infinity();
  const std::uint32_t* kept = all_.data();
  double threshold = best.threshold();
  if (screen_ != nullptr && threshold < kAll) {
    n = screen_->keep(target.query, threshold, vectors, all_.data(), n, lows_.data(), kept_.data());
    kept = kept_.data();
  }
  if (n == 0) return;
  score_(queries_[target.query], vectors, kept, n, scores_.data());
  double limit = score_limit(distance_, threshold);
  for (std::size_t i = 0; i < n; ++i) {
    if (!(scores_[i] <= limit)) continue;
    const RowPlace& place = rows[kept[i]];
    best.push({distance_of_score(distance_, scores_[i]), place.block->rowids[place.row],
               place.block->id, place.row});
    if (best.threshold() < threshold) {
      threshold = best.threshold();
      limit = score_limit(distance_, threshold);
    }
  }
}

}  // namespace warplite::cpu

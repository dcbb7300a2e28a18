#include "compute/policy/select_policy.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace warplite::compute {
namespace {

using compute::Block;
using compute::SampleRow;

// Rows of the sample: a part of all, but so many times k. th-heap §V-A finds 8 to 32 times to be
// right, and so it is on the CPU. To a device of its own memory the sample's product costs next to
// nothing, and each row that the threshold lets pass a way over the bus and work of the host's.
struct SampleRule {
  std::size_t part, most_factor, most_rows;
};
constexpr SampleRule kOnHost{64, 32, SIZE_MAX};
constexpr SampleRule kOnDevice{2, 128, std::size_t{1} << 18};
constexpr std::size_t kLeastFactor = 8;

// Selection by threshold wins within these limits. On the CPU nominees wait for their distances up
// to this k, and selection costs little unless nominees are many: of so many queries that most rows
// are nominated by one.
constexpr std::size_t kLeastQueriesOnHost = 7;
constexpr std::size_t kLeastKOnHost = 512;
constexpr std::size_t kLargestDeferredK = 1024;
// A device of its own memory selects up to 2,048 by itself.
constexpr std::size_t kLeastQueriesOnDevice = 128;
constexpr std::size_t kLeastKOnDevice = 2049;

std::size_t live_rows(const compute::Workload& work) {
  std::size_t rows = 0;
  for (const Block& block : work.blocks) rows += block.live_rows;
  return rows;
}

// Numbers that look random, the same everywhere (SplitMix64).
class Numbers {
 public:
  std::uint64_t below(std::uint64_t end) {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % end;
  }

 private:
  std::uint64_t state_ = 0;
};

// Live rows by their number among the live rows of a block, numbers ascending.
class LiveRows {
 public:
  explicit LiveRows(const Block& block) : block_(block) {}

  std::uint32_t row(std::uint32_t number) {
    if (block_.live == nullptr) return number;
    while (true) {
      const auto here = static_cast<std::uint32_t>(std::popcount(block_.live[word_]));
      if (number < before_ + here) break;
      before_ += here;
      ++word_;
    }
    std::uint64_t bits = block_.live[word_];
    for (std::uint32_t skip = number - before_; skip > 0; --skip) bits &= bits - 1;
    return word_ * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
  }

 private:
  const Block& block_;
  std::uint32_t word_ = 0, before_ = 0;
};

}  // namespace

std::size_t sample_size(const compute::Device& device, std::size_t rows, std::size_t k) {
  if (k == 0 || k > rows / (2 * kLeastFactor)) return 0;
  const SampleRule& rule = device.own_memory() ? kOnDevice : kOnHost;
  return std::max(kLeastFactor * k,
                  std::min({rows / rule.part, rule.most_factor * k, rule.most_rows}));
}

// One row of every stratum of equal size, so that a sample of sorted rows is even, too.
std::vector<SampleRow> choose_sample(const compute::Workload& work, std::size_t size) {
  const std::size_t rows = live_rows(work);
  std::vector<SampleRow> sample;
  if (size == 0) return sample;
  sample.reserve(size);
  Numbers numbers;
  std::size_t first = 0;  // live rows before the block
  std::size_t drawn = 0;
  std::size_t next = numbers.below(rows / size);
  for (std::uint32_t b = 0; b < work.blocks.size(); ++b) {
    const Block& block = work.blocks[b];
    LiveRows live(block);
    while (drawn < size && next < first + block.live_rows) {
      sample.push_back({b, live.row(static_cast<std::uint32_t>(next - first))});
      ++drawn;
      const std::size_t begin = rows * drawn / size, end = rows * (drawn + 1) / size;
      next = begin + numbers.below(std::max<std::size_t>(1, end - begin));
    }
    first += block.live_rows;
  }
  return sample;
}

bool threshold_wins(const compute::Device& device, const compute::Workload& work, std::size_t k) {
  if (work.has_after || !work.range.unbounded()) return false;
  const std::size_t queries = work.queries.rows;
  if (device.own_memory()) return queries >= kLeastQueriesOnDevice && k >= kLeastKOnDevice;
  if (queries < kLeastQueriesOnHost || k < kLeastKOnHost) return false;
  return k > kLargestDeferredK || queries * k >= live_rows(work) / 4 * 3;
}

Status nearest_selected(compute::Device& device, const compute::Workload& work,
                        compute::HitTable& best) {
  const std::size_t k = best.k();
  const bool by_threshold =
      work.select == compute::Select::kThreshold ||
      (work.select == compute::Select::kAuto && k != 0 && threshold_wins(device, work, k));
  if (!by_threshold) return device.nearest(work, best);
  const std::vector<SampleRow> sample =
      choose_sample(work, sample_size(device, live_rows(work), k));
  compute::Workload sampled = work;
  sampled.sample = sample;
  return device.nearest(sampled, best);
}

}  // namespace warplite::compute

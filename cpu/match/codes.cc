#include "cpu/match/codes.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "cpu/match/code_kernels.h"
#include "cpu/match/strip.h"
#include "cpu/match/tile.h"
#include "cpu/match/tile_loop.h"
#include "cpu/runtime/cpu_buffer.h"
#include "cpu/runtime/item_loop.h"

namespace warplite::cpu {
namespace {

using compute::CodeTile;
using compute::CodeWork;

// Rows whose counters, and codes of a column, stay in the first-level cache.
constexpr std::uint32_t kCodeRows = 4096;
// Tests of rows that take as long as it takes to wake a thread.
constexpr std::size_t kThreadTests = std::size_t{1} << 21;
// The same between questions whether to go on: about a millisecond.
constexpr std::size_t kCheckedTests = std::size_t{1} << 24;

// A thread's memory, and what it counts at the moment.
class CodeCounter {
 public:
  CodeCounter(const CodeWork& work, MatchResults& results, ItemLoop& loop, unsigned thread)
      : work_(work), results_(results), loop_(loop), thread_(thread),
        kernels_(code_kernels()), keeper_(results) {}

  // Queries first … end − 1 in a tile.
  void count(std::size_t tile_number, std::size_t first, std::size_t end) {
    for (std::size_t q = first; q < end; ++q) {
      loop_.check(thread_);
      count_one(tile_number, q);
    }
  }

 private:
  void count_one(std::size_t tile_number, std::size_t q) {
    const CodeTile& tile = work_.tiles[tile_number];
    const std::uint64_t bound = prepare(tile_number, q);
    if (bound < results_.bar(q).floor) return;
    if (bound <= std::numeric_limits<std::uint16_t>::max()) {
      return count_as<std::uint16_t>(kernels_.shorts, tile, q, bound);
    }
    count_as<std::uint32_t>(kernels_.words, tile, q, bound);
  }

  // Sets tests_ to what rows of the tile can match. Returns what a row counts at most.
  std::uint64_t prepare(std::size_t tile_number, std::size_t q) {
    const CodeTile& tile = work_.tiles[tile_number];
    const compute::CodeRange* const ranges =
        work_.ranges.data() + tile_number * work_.items.size();
    std::uint64_t bound = 0;
    tests_.clear();
    for (std::uint32_t i = work_.begins[q]; i < work_.begins[q + 1]; ++i) {
      const compute::CodeItem& item = work_.items[i];
      const compute::CodeRange& range = ranges[i];
      const compute::Buffer* const codes = tile.columns[item.column];
      if (codes == nullptr || range.low > range.high || item.weight == 0) continue;
      const std::byte* const bytes = CpuBuffer::of(codes).data();
      tests_.push_back({reinterpret_cast<const std::uint16_t*>(bytes), range.low,
                        static_cast<std::uint16_t>(range.high - range.low), item.weight});
      bound += item.weight;
    }
    return bound;
  }

  template <class Count, class Kernel>
  void count_as(const Kernel& kernel, const CodeTile& tile, std::size_t q, std::uint64_t bound) {
    auto* const counts = room_for<Count>(counters_, kCodeRows);
    for (std::uint32_t first = 0; first < tile.rows; first += kCodeRows) {
      const std::uint32_t n = std::min(tile.rows - first, kCodeRows);
      const Strip<Count> strip{first, first + n, padded(n), counts};
      count_strip(kernel, strip);
      forget_dead(tile, strip);
      if (work_.most < bound) forget_more(strip);
      keeper_.keep(q, tile, std::min<std::uint64_t>(bound, work_.most), strip);
    }
  }

  template <class Count, class Kernel>
  void count_strip(const Kernel& kernel, const Strip<Count>& strip) {
    const std::size_t n = strip.end - strip.first;
    const std::size_t slots = compute::code_slots(n);
    const std::size_t at_once = std::max<std::size_t>(kCheckedTests / slots, 1);
    if (tests_.size() <= at_once) {
      unchecked_ += tests_.size() * slots;
      if (unchecked_ > kCheckedTests) check();
      kernel(tests_.data(), tests_.size(), strip.first, slots, strip.counts);
    } else {
      sum_pieces(kernel, strip, slots, at_once);
    }
    std::fill(strip.counts + n, strip.counts + strip.padded, Count{0});
  }

  // Sums in pieces more tests than may go by without asking whether to go on.
  template <class Count, class Kernel>
  void sum_pieces(const Kernel& kernel, const Strip<Count>& strip, std::size_t slots,
                  std::size_t at_once) {
    auto* const some = room_for<Count>(some_, slots);
    std::fill_n(strip.counts, slots, Count{0});
    for (std::size_t i = 0; i < tests_.size(); i += at_once) {
      check();
      kernel(tests_.data() + i, std::min(at_once, tests_.size() - i), strip.first, slots, some);
      for (std::size_t row = 0; row < slots; ++row) {
        strip.counts[row] = static_cast<Count>(strip.counts[row] + some[row]);
      }
    }
  }

  void check() {
    loop_.check(thread_);
    unchecked_ = 0;
  }

  // Rows that count more than is asked for count nothing.
  template <class Count>
  void forget_more(const Strip<Count>& strip) const {
    for (std::size_t i = 0; i < strip.padded; ++i) {
      if (strip.counts[i] > work_.most) strip.counts[i] = 0;
    }
  }

  const CodeWork& work_;
  MatchResults& results_;
  ItemLoop& loop_;
  const unsigned thread_;
  const CodeKernels& kernels_;
  StripKeeper keeper_;
  std::vector<CodeTest> tests_;
  std::size_t unchecked_ = 0;  // tests of rows since the last question
  Bytes counters_, some_;
};

}  // namespace

void search_codes(const CodeWork& work, compute::HitTable& best) {
  if (best.k() == 0 || work.queries() == 0) return;
  std::size_t rows = 0;
  for (const CodeTile& tile : work.tiles) rows += tile.rows;
  count_tiles<CodeCounter>(work, rows * work.items.size() / kThreadTests + 1, best);
}

}  // namespace warplite::cpu

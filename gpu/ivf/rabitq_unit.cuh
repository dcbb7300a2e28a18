// What a thread block does of one list of RaBitQ codes and some of the queries that probe it, a
// unit: what they make of each other, in shared memory, and sums of signs times w on tensor cores.
// There queries are in tiles of eight. A lane has of each half of a group the rows 2 · line and the
// next, line = lane / 4, and of each tile the queries 2 · (lane % 4) and the next.
#pragma once

#include "gpu/ivf/rabitq_code.cuh"

namespace warplite::gpu {

inline constexpr unsigned kUnitThreads = 128;
inline constexpr unsigned kUnitWarps = kUnitThreads / kWarpLanes;
inline constexpr unsigned kTileQueries = 8, kMostTiles = 4;

// Calls call<kTiles>() for units of so many tiles.
template <typename Call>
void for_tiles(unsigned tiles, const Call& call) {
  if (tiles == 1) {
    call.template operator()<1>();
  } else {
    call.template operator()<kMostTiles>();
  }
}

inline constexpr unsigned kHalves = 2;  // of a group, each a product's rows
inline constexpr unsigned kHalfRows = RabitqGroup::kRows / kHalves;
inline constexpr unsigned kUnitAhead = 2;  // groups that a warp has on their way

// What a block has of a query.
struct QueryTables {
  RabitqTables of;
  std::uint32_t query, probe;
};

// Where a block has, in this order, tables and limits of the queries, w, and v.
template <unsigned kTiles>
struct UnitPlan {
  static constexpr std::uint32_t kQueries = kTiles * kTileQueries;
  // Words of w, and of v, from one query to the next. Lanes read two of w at once, of four queries
  // on banks of their own, and one of v, of any queries.
  std::uint32_t word_stride, element_stride;
  std::uint32_t limits, words, elements, size;

  constexpr explicit UnitPlan(const compute::IvfShape& shape)
      : word_stride(pair_words(shape.m) / 8 % 2 == 1 ? pair_words(shape.m)
                                                     : pair_words(shape.m) + 8),
        element_stride(pair_words(shape.m) + 1),
        limits(kQueries * sizeof(QueryTables)),
        words(limits + kQueries * 8),
        elements(words + kQueries * word_stride * 4),
        size((elements + kQueries * element_stride * 4 + 15) / 16 * 16) {}
};

template <unsigned kTiles>
struct Unit {
  UnitPlan<kTiles> plan;
  std::byte* memory;
  std::uint32_t list, queries;

  __device__ QueryTables& tables(std::uint32_t query) const {
    return reinterpret_cast<QueryTables*>(memory)[query];
  }
  __device__ std::uint64_t& limit(std::uint32_t query) const {
    return reinterpret_cast<std::uint64_t*>(memory + plan.limits)[query];
  }
  // w or v of a query.
  __device__ std::uint32_t* words(std::uint32_t query) const {
    return reinterpret_cast<std::uint32_t*>(memory + plan.words) + query * plan.word_stride;
  }
  __device__ std::uint32_t* elements(std::uint32_t query) const {
    return reinterpret_cast<std::uint32_t*>(memory + plan.elements) + query * plan.element_stride;
  }
};

// A word of each of eight lanes, of every eighth element. Returns four of eight elements that
// follow each other, 8 · (lane % 4) and those behind it, in the order of pair_bits(): the lower
// lanes the first.
__device__ inline std::uint32_t transpose(std::uint32_t word) {
  const bool odd = threadIdx.x % 2 != 0, second = threadIdx.x % 4 >= 2,
             upper = threadIdx.x % 8 >= 4;
  word = __byte_perm(word, __shfl_xor_sync(kWholeWarp, word, 1), odd ? 0x3715 : 0x6240);
  word = __byte_perm(word, __shfl_xor_sync(kWholeWarp, word, 2), second ? 0x3276 : 0x5410);
  return __byte_perm(word, __shfl_xor_sync(kWholeWarp, word, 4), upper ? 0x3726 : 0x5140);
}

// Makes the tables of a unit, those of four queries by a warp at a time.
template <unsigned kTiles>
__device__ void make_unit_tables(const RabitqScan& scan, const Unit<kTiles>& unit,
                                 const uint2* pairs) {
  constexpr unsigned kLanes = 8, kAtOnce = kWarpLanes / kLanes;
  const float* centroid = scan.centroids + std::size_t{unit.list} * scan.shape.dim;
  for (std::uint32_t i = threadIdx.x / kLanes; i - i % kAtOnce < unit.queries;
       i += kUnitThreads / kLanes) {
    const uint2 pair = pairs[min(i, unit.queries - 1)];
    const RabitqTables made = make_tables<kLanes>(
        scan.shape, scan.product, scan.queries + std::size_t{pair.x} * scan.shape.dim, centroid,
        [&](std::uint32_t k, std::uint32_t w, std::uint32_t v) {
          w = transpose(w);
          if (k >= pair_words(scan.shape.m)) return;
          unit.words(i)[k / 8 * 8 + k % 4 * 2 + k % 8 / 4] = w;
          unit.elements(i)[k] = v;
        });
    if (threadIdx.x % kLanes != 0) continue;
    unit.tables(i) = {made, pair.x, pair.y};
    unit.limit(i) = scan.best.limits[pair.x];
  }
}

// The list whose unit this is: the last that begins at it or before. Called by whole warps.
__device__ inline std::uint32_t list_of_unit(const std::uint32_t* first_units, std::uint32_t lists,
                                             std::uint32_t unit) {
  std::uint32_t low = 0, high = lists;
  while (high - low > 1) {
    const std::uint32_t step = (high - low + kWarpLanes - 1) / kWarpLanes;
    const std::uint32_t at = low + threadIdx.x % kWarpLanes * step;
    const unsigned votes = __ballot_sync(kWholeWarp, at < high && first_units[at] <= unit);
    low += (31 - __clz(votes)) * step;
    high = min(high, low + step);
  }
  return low;
}

// The block's unit, with its tables. REQUIRES: there is one.
template <unsigned kTiles>
__device__ Unit<kTiles> make_unit(const RabitqScan& scan, const IvfPairs& pairs,
                                  std::byte* memory) {
  constexpr std::uint32_t kQueries = UnitPlan<kTiles>::kQueries;
  const std::uint32_t list = list_of_unit(pairs.first_units, scan.shape.lists, blockIdx.x);
  const std::uint32_t first =
      pairs.first_pairs[list] + (blockIdx.x - pairs.first_units[list]) * kQueries;
  const Unit<kTiles> unit{UnitPlan<kTiles>(scan.shape), memory, list,
                          min(pairs.first_pairs[list + 1] - first, kQueries)};
  make_unit_tables(scan, unit, pairs.pairs + first);
  __syncthreads();
  return unit;
}

// Whether the block has nothing to do. Called by all threads.
__device__ inline bool has_no_unit(const RabitqScan& scan, const IvfPairs& pairs) {
  if (blockIdx.x >= pairs.first_units[scan.shape.lists]) return true;
  return __syncthreads_or(is_stopped(scan)) != 0;
}

// A product of 16 × 32 and 32 × 8 bytes, added to c.
__device__ inline void multiply_add(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1, const int (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %11, %12, %13};\n"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]),
        "r"(c[2]), "r"(c[3]));
#endif
}

__device__ inline unsigned line_of_lane() {
  return threadIdx.x % kWarpLanes / 4;
}

// Of each half of a group and each tile of queries the sums of a lane's two rows and two queries,
// of the signs' bits times w: [half][tile][2 · row + query].
template <unsigned kTiles>
using SignSums = int[kHalves][kTiles][4];

// What a step of 32 elements adds to them, of which a lane has eight, of two sub-spaces: of each
// row their first bits, their second bits, and so on, as w has them. The first begins with `start`.
template <bool kFirst, unsigned kTiles>
__device__ void add_step(const Unit<kTiles>& unit, const std::uint8_t* group, std::uint32_t s,
                         int start, SignSums<kTiles>& sums) {
  // Sub-spaces beyond the last read what follows the codes, and count nothing.
  const auto* codes = reinterpret_cast<const std::uint16_t*>(group + s * 16) + line_of_lane();
  const std::uint32_t both = codes[0] | std::uint32_t{codes[8]} << 16, second = both >> 1;
  const std::uint32_t rows[2] = {__byte_perm(both, second, 0x6420),
                                 __byte_perm(both, second, 0x7531)};
  std::uint32_t bits[kHalves][4];
#pragma unroll
  for (unsigned half = 0; half < kHalves; ++half) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) bits[half][i] = rows[i % 2] >> (4 * half + i / 2 * 2) & kBits;
  }
  const int none[4] = {start, start, start, start};
#pragma unroll
  for (unsigned t = 0; t < kTiles; ++t) {
    const uint2 w =
        *reinterpret_cast<const uint2*>(unit.words(t * kTileQueries + line_of_lane()) + s);
#pragma unroll
    for (unsigned half = 0; half < kHalves; ++half) {
      int(&sum)[4] = sums[half][t];
      if constexpr (kFirst) {
        multiply_add(sum, bits[half], w.x, w.y, none);
      } else {
        multiply_add(sum, bits[half], w.x, w.y, sum);
      }
    }
  }
}

// The sums of a group, and `start`.
template <unsigned kTiles>
__device__ void sum_signs(const Unit<kTiles>& unit, const std::uint8_t* group, std::uint32_t m,
                          int start, SignSums<kTiles>& sums) {
  const std::uint32_t first = threadIdx.x % 4 * 2;
  add_step<true>(unit, group, first, start, sums);
  for (std::uint32_t s = first + 8; s < pair_words(m); s += 8) {
    add_step<false>(unit, group, s, start, sums);
  }
}

// The groups of a unit's list that a warp looks at, in all runs: every kUnitWarps-th.
class GroupWalk {
 public:
  // `memory`: of bytes().
  __device__ GroupWalk(const RabitqScan& scan, std::byte* memory)
      : scan_(scan), memory_(memory), group_(scan.shape.m), slots_(scan.shape.m) {}

  static constexpr std::uint32_t bytes(const compute::IvfShape& shape) {
    return kUnitAhead * GroupSlot(shape.m).size;
  }

  // Calls then(take(group)) for each; by then the group's memory may be another's. Of one none of whose rows
  // takes part nothing is taken.
  template <typename Take, typename Then>
  __device__ void run(std::uint32_t list, const Take& take, const Then& then) {
    static_assert(kUnitAhead == 2);
    for (std::uint32_t r = 0; r < scan_.run_count; ++r) {
      view_ = &scan_.runs[r];
      begin_ = view_->begins[list];
      end_ = view_->ends[list];
      if (begin_ == end_) continue;
      position_ = (RabitqGroup::first_of(begin_) + threadIdx.x / kWarpLanes) * RabitqGroup::kRows;
      for (unsigned i = 0; i < kUnitAhead; ++i) fetch(position_ + i * kStep, i);
      for (unsigned slot = 0; position_ < end_; slot = 1 - slot) {
        __pipeline_wait_prior(kUnitAhead - 1);
        __syncwarp();
        const std::byte* const at = memory_ + slot * slots_.size;
        const auto* const group = reinterpret_cast<const std::uint8_t*>(at);
        rows_ = slots_.live(*view_, at) & rows_of_list();
        const auto taken = rows_ != 0 ? take(group) : decltype(take(group)){};
        __syncwarp();
        fetch(position_ + kUnitAhead * kStep, slot);
        then(taken);
        position_ += kStep;
      }
    }
  }

  __device__ const IvfRunView& view() const { return *view_; }
  __device__ const RabitqGroup& group() const { return group_; }
  // Of the group's first row.
  __device__ std::uint32_t position() const { return position_; }
  // The run has no further one for this warp.
  __device__ bool is_last() const { return position_ + kStep >= end_; }
  // Which of the group's rows are the list's, and take part.
  __device__ std::uint32_t rows() const { return rows_; }

 private:
  static constexpr std::uint32_t kStep = kUnitWarps * RabitqGroup::kRows;

  __device__ std::uint32_t rows_of_list() const {
    if (position_ >= begin_ && position_ + RabitqGroup::kRows <= end_) return ~0u;
    return RabitqGroup::rows_of(begin_, end_, position_ / RabitqGroup::kRows);
  }

  __device__ void fetch(std::uint32_t position, unsigned slot) {
    if (position < end_) {
      slots_.fetch(*view_, position, memory_ + slot * slots_.size);
    }
    __pipeline_commit();
  }

  const RabitqScan& scan_;
  std::byte* const memory_;
  const RabitqGroup group_;
  const GroupSlot slots_;
  const IvfRunView* view_ = nullptr;
  std::uint32_t begin_ = 0, end_ = 0;  // of the list
  std::uint32_t position_ = 0;
  std::uint32_t rows_ = 0;  // of the group
};

}  // namespace warplite::gpu

// Lists of RaBitQ codes, each with the queries that probe it (rabitq.h).
#include <algorithm>

#include "gpu/ivf/rabitq_code.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kWarps = kThreads / kWarpLanes;
constexpr unsigned kTiles = kListQueries / 8;           // of queries, in a product
constexpr unsigned kAhead = 2;                          // groups that a warp has on their way
constexpr unsigned kHalfRows = RabitqGroup::kRows / 2;  // that are multiplied together
constexpr std::uint32_t kQueue = kHalfRows * kListQueries + kWarpLanes;

// A pair that is not ruled out.
struct Waiting {
  std::uint32_t position;  // of the row
  std::int32_t what;       // Σ of the signs' bits times w, and below it the query's number

  static constexpr unsigned kBits = 5;
  static_assert(kListQueries == 1 << kBits);
  __device__ static Waiting of(std::uint32_t position, int sum, std::uint32_t query) {
    return {position, static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) << kBits | query)};
  }
  __device__ std::uint32_t query() const { return static_cast<std::uint32_t>(what) % kListQueries; }
  __device__ int sum() const { return what >> kBits; }
};

// How pairs are ruled out: `low` of compute/rabitq.h is, but for rounding,
//   D + bias + f·(signs·s + rest) − g·norm,
// s being the sum that tensor cores make. Fused operations, half as many, round otherwise than the
// definition does, so every term is moved by more than both may be off (kSlack of its size),
// towards rows that stay: f is negative. Who stays is scored as defined.
constexpr float kSlack = 0x1p-19f;

// Of a query and a list.
struct Screen {
  float signs, rest;
  float most;  // less D; no number: every row stays
  float norm;
};

__device__ Screen screen_of(const compute::IvfShape& shape, const RabitqTables& of,
                            std::uint64_t limit) {
  const auto signs = static_cast<float>(of.signs), dim = static_cast<float>(shape.dim);
  const float largest = of.unit * (fabsf(signs) + 62 * dim);
  const float most = value_of_key(static_cast<std::uint32_t>(limit >> 32));
  Screen screen{2 * of.unit, kSlack * largest - of.unit * signs,
                most - of.a + kSlack * (fabsf(most) + fabsf(of.a)),
                shape.planes == 1 ? 0 : of.norm * (1 + kSlack)};
  // Where sums may overflow, all stay.
  if (!(largest < 1e30f)) screen.most = __int_as_float(0x7fffffff);
  return screen;
}

// What a thread block has in shared memory, in this order: tables, limits and screens of the
// queries, w, v, and of each warp those that wait, groups that come, and records.
struct BlockPlan {
  RecordPlan record;
  std::uint32_t word_stride, element_stride;  // words, from one query to the next
  std::uint32_t limits, screens, words, elements, warps;
  std::uint32_t groups, records, warp_size, size;

  constexpr explicit BlockPlan(const compute::IvfShape& shape)
      : record(shape),
        // So that eight queries' words, four at a time, lie in different banks.
        word_stride(pair_words(shape.m) + 4),
        element_stride(pair_words(shape.m) + 1),
        limits(kListQueries * sizeof(RabitqPairTables)),
        screens(limits + kListQueries * 8),
        words(screens + kListQueries * sizeof(Screen)),
        elements(words + kListQueries * word_stride * 4),
        warps(elements + (kListQueries * element_stride * 4 + 15) / 16 * 16),
        groups(kQueue * sizeof(Waiting)),
        records(groups + kAhead * RabitqGroup(shape.m).size),
        warp_size(records + record.bytes),
        size(warps + kWarps * warp_size) {}
};

// Four bits as four bytes, 0 or 1.
__device__ std::uint32_t spread(std::uint32_t four) {
  return four * 0x00204081u & 0x01010101u;
}

// c += a · b, of 16 × 32 and 32 × 8 bytes.
__device__ void multiply_add(int (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// What a warp does of one list and up to kListQueries queries. A lane has the rows `line`, + 8 of
// either half of a group, line = lane / 4, and of each eight queries two, 2 · (lane % 4) and the
// next.
class Warp {
 public:
  __device__ Warp(const RabitqScan& scan, const BlockPlan& plan, std::byte* block,
                  std::uint32_t queries)
      : scan_(scan),
        plan_(plan),
        block_(block),
        own_(block + plan.warps + threadIdx.x / kWarpLanes * plan.warp_size),
        group_(scan.shape.m) {
    for (unsigned i = 0; i < 2 * kTiles; ++i) {
      const unsigned query = i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
      if (query < queries) present_ |= 3u << (2 * i);
    }
  }

  __device__ void scan_list(std::uint32_t list) {
    for (std::uint32_t r = 0; r < scan_.run_count; ++r) {
      view_ = &scan_.runs[r];
      begin_ = view_->begins[list];
      end_ = view_->ends[list];
      if (begin_ == end_) continue;
      position_ = (RabitqGroup::first_of(begin_) + threadIdx.x / kWarpLanes) * RabitqGroup::kRows;
      for (unsigned i = 0; i < kAhead; ++i) fetch(position_ + i * kStep, i);
      for (unsigned slot = 0; position_ < end_; slot = 1 - slot) {
        __pipeline_wait_prior(kAhead - 1);
        __syncwarp();
        const auto* group =
            reinterpret_cast<const std::uint8_t*>(own_ + plan_.groups + slot * group_.size);
        // What is looked at closely is looked at in one place: the instructions of a group stay
        // together.
        const bool last = position_ + kStep >= end_;
#pragma unroll 1
        for (unsigned half = 0; half < 2; ++half) {
          scan_half(group, half);
          const std::uint32_t least = last && half != 0 ? 1 : plan_.record.rows;
          while (pending_ >= least) look_at(min(pending_, plan_.record.rows));
        }
        __syncwarp();
        fetch(position_ + kAhead * kStep, slot);
        position_ += kStep;
      }
    }
  }

 private:
  static constexpr std::uint32_t kStep = kWarps * RabitqGroup::kRows;
  static_assert(kAhead == 2);
  // Sums of two rows and two queries of each tile: [tile][2 · row + query].
  using Sums = int[kTiles][4];
  // Of a row, as the screen takes it.
  struct Row {
    float bias, f, g;
  };

  __device__ void fetch(std::uint32_t position, unsigned slot) {
    if (position < end_) {
      fetch_group(view_->codes + std::size_t{position / RabitqGroup::kRows} * group_.size,
                  group_.size, own_ + plan_.groups + slot * group_.size);
    }
    __pipeline_commit();
  }

  __device__ const RabitqPairTables& tables(std::uint32_t query) const {
    return reinterpret_cast<const RabitqPairTables*>(block_)[query];
  }
  __device__ std::uint64_t limit(std::uint32_t query) const {
    return reinterpret_cast<const std::uint64_t*>(block_ + plan_.limits)[query];
  }
  __device__ const Screen& screen(std::uint32_t query) const {
    return reinterpret_cast<const Screen*>(block_ + plan_.screens)[query];
  }
  __device__ Waiting* queue() const { return reinterpret_cast<Waiting*>(own_); }

  // Σ of the signs' bits times w.
  __device__ void multiply(const std::uint8_t* group, unsigned half, Sums& sums) const {
    const unsigned lane = threadIdx.x % kWarpLanes, line = lane / 4;
    const auto* words = reinterpret_cast<const std::uint32_t*>(block_ + plan_.words);
    for (std::uint32_t s = lane % 4; s < pair_words(scan_.shape.m); s += 8) {
      // Sub-spaces beyond the last read what follows the codes, and count nothing.
      const std::uint8_t* near = group + s * 16 + line;
      const std::uint8_t* far = near + 4 * 16;
      const std::uint32_t bytes[4] = {near[0], near[8], far[0], far[8]};
      std::uint32_t bits[4];
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) bits[i] = spread(bytes[i] >> (4 * half) & 15u);
#pragma unroll
      for (unsigned t = 0; t < kTiles; ++t) {
        const std::uint32_t* of = words + (t * 8 + line) * plan_.word_stride + s;
        multiply_add(sums[t], bits, of[0], of[4]);
      }
    }
  }

  __device__ Row row_of(const std::uint8_t* group, std::uint32_t place) const {
    const SignedRow signs{group, place, 0};
    Row row{signs.factor(group_.bias), signs.factor(group_.f), signs.factor(group_.g)};
    row.bias = __fmul_rn(row.bias, row.bias > 0 ? 1 - kSlack : 1 + kSlack);
    // Terms were moved as is right for negative factors.
    if (!(row.f <= 0)) row.bias = __int_as_float(0x7fffffff);
    return row;
  }

  // Which of the lane's pairs are not ruled out, a bit for each.
  __device__ std::uint32_t survivors(const Row (&rows)[2], const Sums& sums) const {
    std::uint32_t mask = 0;
#pragma unroll
    for (unsigned t = 0; t < kTiles; ++t) {
#pragma unroll
      for (unsigned j = 0; j < 2; ++j) {
        const Screen& of = screen(t * 8 + threadIdx.x % 4 * 2 + j);
#pragma unroll
        for (unsigned i = 0; i < 2; ++i) {
          const float x = __fmaf_rn(of.signs, __int2float_rn(sums[t][i * 2 + j]), of.rest);
          const float low = __fmaf_rn(-of.norm, rows[i].g, __fmaf_rn(rows[i].f, x, rows[i].bias));
          mask |= (low > of.most ? 0u : 1u) << ((t * 2 + j) * 2 + i);
        }
      }
    }
    return mask & present_;
  }

  __device__ bool is_of_list(std::uint32_t position) const {
    return position >= begin_ && position < end_;
  }

  // Puts those of half a group that are not ruled out into the queue.
  __device__ void scan_half(const std::uint8_t* group, unsigned half) {
    Sums sums = {};
    multiply(group, half, sums);
    const unsigned lane = threadIdx.x % kWarpLanes;
    const std::uint32_t place = half * kHalfRows + lane / 4;
    const Row rows[2] = {row_of(group, place), row_of(group, place + 8)};
    std::uint32_t mask = survivors(rows, sums);
    if (!is_of_list(position_ + place)) mask &= 0xaaaaaaaau;
    if (!is_of_list(position_ + place + 8)) mask &= 0x55555555u;
    if (__ballot_sync(kWholeWarp, mask != 0) == 0) return;
    std::uint32_t end = __popc(mask);
    for (unsigned step = 1; step < kWarpLanes; step *= 2) {
      const std::uint32_t before = __shfl_up_sync(kWholeWarp, end, step);
      if (lane >= step) end += before;
    }
    Waiting* next = queue() + pending_ + end - __popc(mask);
#pragma unroll
    for (unsigned t = 0; t < kTiles; ++t) {
#pragma unroll
      for (unsigned j = 0; j < 2; ++j) {
#pragma unroll
        for (unsigned i = 0; i < 2; ++i) {
          if ((mask >> ((t * 2 + j) * 2 + i) & 1u) == 0) continue;
          *next++ =
              Waiting::of(position_ + place + i * 8, sums[t][i * 2 + j], t * 8 + lane % 4 * 2 + j);
        }
      }
    }
    pending_ += __shfl_sync(kWholeWarp, end, kWarpLanes - 1);
    __syncwarp();
  }

  // Looks closely at the last `count` of those that wait.
  __device__ void look_at(std::uint32_t count) {
    const unsigned lane = threadIdx.x % kWarpLanes;
    const Waiting* waiting = queue() + pending_ - count;
    std::byte* const records = own_ + plan_.records;
    ask_records(plan_.record, view_->records, count, records,
                [waiting](std::uint32_t i) { return waiting[i].position; });
    const Waiting pair = waiting[min(lane, count - 1)];
    const SignedRow signs = signs_of(pair);
    const RabitqTables& of = tables(pair.query()).of;
    const std::uint32_t low = known_key(signs.low(scan_.shape, of.a, of.norm));
    const std::uint32_t ordinal = ordinal_of(scan_, *view_, pair.position);
    await_records();
    if (lane < count && ordinal != compute::kNoOrdinal) {
      add(pair, signs, low, ordinal, records + lane * plan_.record.stride);
    }
    pending_ -= count;
    __syncwarp();
  }

  __device__ SignedRow signs_of(const Waiting& pair) const {
    const RabitqTables& of = tables(pair.query()).of;
    return {view_->codes + std::size_t{pair.position / RabitqGroup::kRows} * group_.size,
            pair.position % RabitqGroup::kRows, signs_product(of.unit, 2 * pair.sum() - of.signs)};
  }

  __device__ void add(const Waiting& pair, const SignedRow& signs, std::uint32_t low,
                      std::uint32_t ordinal, const std::byte* record) const {
    const RabitqPairTables& of = tables(pair.query());
    const auto* elements = reinterpret_cast<const std::uint32_t*>(block_ + plan_.elements) +
                           pair.query() * plan_.element_stride;
    const std::uint32_t score = score_of_record(scan_.shape, of.of, elements, signs, low,
                                                reinterpret_cast<const std::uint8_t*>(record));
    const std::uint64_t key = make_key(score, ordinal);
    if (key > limit(pair.query())) return;
    const std::uint32_t slot = atomicAdd(&scan_.best.counts[of.query], 1u);
    if (slot < scan_.best.stride) {
      scan_.best.keys[std::size_t{of.query} * scan_.best.stride + slot] = key;
    }
  }

  const RabitqScan& scan_;
  const BlockPlan& plan_;
  std::byte* const block_;
  std::byte* const own_;
  const RabitqGroup group_;
  std::uint32_t present_ = 0;  // pairs of queries that there are, as survivors() has them
  const IvfRunView* view_ = nullptr;
  std::uint32_t begin_ = 0, end_ = 0;  // of the list
  std::uint32_t position_ = 0;
  std::uint32_t pending_ = 0;
};

// The queries of a unit; those beyond the last have zeros.
__device__ void load_queries(const RabitqScan& scan, const RabitqPairs& pairs,
                             const BlockPlan& plan, std::uint32_t first, std::uint32_t count,
                             std::byte* block) {
  auto* const tables = reinterpret_cast<RabitqPairTables*>(block);
  auto* const limits = reinterpret_cast<std::uint64_t*>(block + plan.limits);
  auto* const screens = reinterpret_cast<Screen*>(block + plan.screens);
  for (std::uint32_t i = threadIdx.x; i < kListQueries; i += kThreads) {
    tables[i] = i < count ? pairs.tables[first + i] : RabitqPairTables{};
    limits[i] = i < count ? scan.best.limits[tables[i].query] : 0;
    screens[i] = screen_of(scan.shape, tables[i].of, limits[i]);
  }
  const std::uint32_t words = pair_words(scan.shape.m);
  auto* const to_words = reinterpret_cast<std::uint32_t*>(block + plan.words);
  auto* const to_elements = reinterpret_cast<std::uint32_t*>(block + plan.elements);
  for (std::uint32_t i = threadIdx.x; i < kListQueries * words; i += kThreads) {
    const std::uint32_t query = i / words, word = i % words;
    const std::size_t at = std::size_t{first + query} * words + word;
    to_words[query * plan.word_stride + word] = query < count ? pairs.words[at] : 0;
    to_elements[query * plan.element_stride + word] = query < count ? pairs.elements[at] : 0;
  }
}

// The list whose unit this is: the last that begins at it or before. Called by whole warps.
__device__ std::uint32_t list_of_unit(const std::uint32_t* first_units, std::uint32_t lists,
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

__global__ void __launch_bounds__(kThreads)
    lists_kernel(const __grid_constant__ RabitqScan scan, const RabitqPairs pairs) {
  extern __shared__ __align__(16) std::byte memory[];
  const std::uint32_t* first_units = pairs.order.first_units;
  if (blockIdx.x >= first_units[scan.shape.lists]) return;
  const std::uint32_t low = list_of_unit(first_units, scan.shape.lists, blockIdx.x);
  const BlockPlan plan(scan.shape);
  const std::uint32_t first =
      pairs.order.first_pairs[low] + (blockIdx.x - first_units[low]) * kListQueries;
  const std::uint32_t count = min(pairs.order.first_pairs[low + 1] - first, kListQueries);
  load_queries(scan, pairs, plan, first, count, memory);
  __syncthreads();
  Warp(scan, plan, memory, count).scan_list(low);
}

}  // namespace

bool rabitq_lists_fit(const compute::IvfShape& shape, int capability, std::size_t shared_memory) {
  return capability >= 80 && BlockPlan(shape).size + 1024 <= shared_memory;
}

void launch_rabitq_lists(const RabitqScan& scan, const RabitqPairs& pairs, cudaStream_t stream) {
  launch_rabitq_pairs(scan, pairs, stream);
  const std::size_t bytes = BlockPlan(scan.shape).size;
  check(cudaFuncSetAttribute(lists_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "scanning lists");
  const std::uint32_t units = pairs.most / kListQueries + std::min(scan.shape.lists, pairs.most);
  lists_kernel<<<units, kThreads, bytes, stream>>>(scan, pairs);
  check_launch("scanning lists");
}

}  // namespace warplite::gpu

// Lists of RaBitQ codes, each with the queries that probe it (rabitq.h).
#include <algorithm>

#include "gpu/ivf/rabitq_code.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kWarps = kThreads / kWarpLanes;
constexpr unsigned kTiles = kListQueries / 8;  // of queries, in a product
constexpr unsigned kAhead = 2;                 // groups that a warp has on their way
constexpr unsigned kHalves = 2;                         // of a group, each a product's rows
constexpr unsigned kHalfRows = RabitqGroup::kRows / kHalves;
constexpr std::uint32_t kQueue = 2 * kWarpLanes;

// A pair that is not ruled out.
struct Waiting {
  std::uint32_t position;  // of the row
  std::uint32_t query;     // of the unit
};

// How pairs are ruled out. `low` of compute/rabitq.h is beyond the query's limit when, of the sum
// of the signs' bits times w,
//   sum < bias/|f| · c₀ + g/|f| · c₁ + 1/|f| · c₂ + c₃,
// where c₀ = 1/(2·unit), c₁ = −‖x‖·c₀, c₂ = (D − limit)·c₀ and c₃ = Σw / 2: f is negative. The
// right side is a product of what a row has with what a query has, which tensor cores make of pairs
// of bfloat16 that add up to each number; and sums are found as floats. Every term is moved by more
// than all of that may be off (kSlack of its size), towards rows that stay. Who stays is scored as
// defined.
constexpr float kSlack = 0x1p-14f;
// What no term of a row exceeds, so that a query's can rule out none, or all.
constexpr float kFar = 0x1p100f;
// A float whose last bit is a one: integers are added to its bits.
constexpr float kUnits = 0x1.8p23f;

// The upper and lower half of the word are two bfloat16, the upper halves of both floats.
__device__ std::uint32_t pair_of(float low, float high) {
  return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}
// The nearest bfloat16.
__device__ float upper_part(float x) {
  return __uint_as_float((__float_as_uint(x) + 0x8000u) & 0xffff0000u);
}
__device__ float from_upper(std::uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}
__device__ float from_lower(std::uint32_t pair) {
  return __uint_as_float(pair << 16);
}

__device__ float reciprocal(float x) {
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

// What a lane has of a query: c₀, c₁, c₂ or c₃ by its place among four.
struct Screen {
  std::uint32_t upper = 0, lower = 0;

  Screen() = default;
  __device__ Screen(const compute::IvfShape& shape, const RabitqTables& of, std::uint64_t limit,
                    bool present) {
    const unsigned place = threadIdx.x % 4;
    const float most = value_of_key(static_cast<std::uint32_t>(limit >> 32));
    const float c0 = __fdiv_rn(0.5f, of.unit), signs = static_cast<float>(of.signs);
    const float c1 = shape.planes == 1 ? 0.0f : -of.norm * c0;
    const float c2 = c0 * (of.a - most - kSlack * (fabsf(most) + fabsf(of.a)));
    const float dim = static_cast<float>(shape.dim);
    float c = place == 0   ? c0
              : place == 1 ? c1
              : place == 2 ? c2
                           : (signs - kSlack * (fabsf(signs) + 62 * dim)) / 2;
    // Where sums may overflow, or there is no limit, all stay.
    const bool sound = c0 > 0x1p-60f && c0 < 0x1p100f && c1 > -0x1p100f && fabsf(c2) < 0x1p100f;
    if (!present || !sound) c = place != 3 ? 0.0f : present ? -kFar : kFar;
    const float first = upper_part(c), second = upper_part(c - first);
    upper = pair_of(first, place == 3 ? 0.0f : first);
    lower = pair_of(second, place == 3 ? c - first - second : -kSlack * fabsf(c));
  }
};

// What a block has of a query.
struct QueryTables {
  RabitqTables of;
  std::uint32_t query, reserved;
};

// What a thread block has in shared memory, in this order: tables and limits of the queries, w, v,
// and of each warp those that wait, groups that come, and records.
struct BlockPlan {
  RecordPlan record;
  std::uint32_t stride;  // words of w or v, from one query to the next: odd, for different banks
  std::uint32_t limits, words, elements, warps;
  std::uint32_t groups, records, warp_size, size;

  constexpr explicit BlockPlan(const compute::IvfShape& shape)
      : record(shape),
        stride(pair_words(shape.m) + 1),
        limits(kListQueries * sizeof(QueryTables)),
        words(limits + kListQueries * 8),
        elements(words + kListQueries * stride * 4),
        warps((elements + kListQueries * stride * 4 + 15) / 16 * 16),
        groups(kQueue * sizeof(Waiting)),
        records(groups + kAhead * RabitqGroup(shape.m).size),
        warp_size(records + record.bytes),
        size(warps + kWarps * warp_size) {}
};

// A product of 16 × 32 and 32 × 8 bytes, added to c.
__device__ void multiply_add(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1, const int (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %11, %12, %13};\n"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]),
        "r"(c[2]), "r"(c[3]));
#endif
}
// A product of 16 × 16 and 16 × 8 bfloat16.
__device__ void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                         std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %10, %10, %10};\n"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
#endif
}

// What a warp does of one list and up to kListQueries queries. In products a lane has of each half
// of a group the rows 2 · line and the next, line = lane / 4, and of each eight queries
// 2 · (lane % 4) and the next.
class Warp {
 public:
  __device__ Warp(const RabitqScan& scan, const BlockPlan& plan, std::byte* block,
                  std::uint32_t queries)
      : scan_(scan),
        plan_(plan),
        block_(block),
        own_(block + plan.warps + threadIdx.x / kWarpLanes * plan.warp_size),
        group_(scan.shape.m) {
#pragma unroll
    for (unsigned t = 0; t < kTiles; ++t) {
      const std::uint32_t query = t * 8 + line();
      screens_[t] = Screen(scan.shape, tables(query).of, limit(query), query < queries);
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
        const std::uint32_t mask = survivors(
            reinterpret_cast<const std::uint8_t*>(own_ + plan_.groups + slot * group_.size));
        __syncwarp();
        fetch(position_ + kAhead * kStep, slot);
        look_at_survivors(mask);
        position_ += kStep;
      }
    }
  }

 private:
  static constexpr std::uint32_t kStep = kWarps * RabitqGroup::kRows;
  static_assert(kAhead == 2);
  // Sums of two rows and two queries of each tile, in bits of floats: [tile][2 · row + query].
  using Sums = int[kTiles][4];
  static constexpr unsigned kPairs = kTiles * 4;
  static_assert(kHalves * kPairs == 32);

  __device__ static unsigned line() {
    return threadIdx.x % kWarpLanes / 4;
  }

  __device__ void fetch(std::uint32_t position, unsigned slot) {
    if (position < end_) {
      fetch_group(view_->codes + std::size_t{position / RabitqGroup::kRows} * group_.size,
                  group_.size, own_ + plan_.groups + slot * group_.size);
    }
    __pipeline_commit();
  }

  __device__ const QueryTables& tables(std::uint32_t query) const {
    return reinterpret_cast<const QueryTables*>(block_)[query];
  }
  __device__ std::uint64_t limit(std::uint32_t query) const {
    return reinterpret_cast<const std::uint64_t*>(block_ + plan_.limits)[query];
  }
  // w or v of a query.
  __device__ const std::uint32_t* words(std::uint32_t at, std::uint32_t query) const {
    return reinterpret_cast<const std::uint32_t*>(block_ + at) + query * plan_.stride;
  }
  __device__ Waiting* queue() const {
    return reinterpret_cast<Waiting*>(own_);
  }

  // Adds those of the signs' bits times w that a step of 32 elements has.
  template <bool kFirst>
  __device__ void add_step(const std::uint8_t* group, std::uint32_t s,
                           Sums (&sums)[kHalves]) const {
    // Sub-spaces beyond the last read what follows the codes, and count nothing.
    const auto* codes = reinterpret_cast<const std::uint16_t*>(group + s * 16) + line();
    const std::uint32_t near = codes[0], far = codes[4 * 8];
    std::uint32_t bits[kHalves][4];
#pragma unroll
    for (unsigned half = 0; half < kHalves; ++half) {
      bits[half][0] = spread(near >> (4 * half) & 15u);
      bits[half][1] = spread(near >> (8 + 4 * half) & 15u);
      bits[half][2] = spread(far >> (4 * half) & 15u);
      bits[half][3] = spread(far >> (8 + 4 * half) & 15u);
    }
    const int units = __float_as_int(kUnits), none[4] = {units, units, units, units};
#pragma unroll
    for (unsigned t = 0; t < kTiles; ++t) {
      const std::uint32_t* of = words(plan_.words, t * 8 + line()) + s;
      const std::uint32_t b0 = of[0], b1 = of[4];
#pragma unroll
      for (unsigned half = 0; half < kHalves; ++half) {
        int(&sum)[4] = sums[half][t];
        if constexpr (kFirst) {
          multiply_add(sum, bits[half], b0, b1, none);
        } else {
          multiply_add(sum, bits[half], b0, b1, sum);
        }
      }
    }
  }

  // What tensor cores take of the rows of half a group: by the lane's place among four bias/|f|,
  // g/|f|, 1/|f|, or 1.
  __device__ void terms_of(const std::uint8_t* group, unsigned half,
                           std::uint32_t (&terms)[4]) const {
    const unsigned place = threadIdx.x % 4;
    const auto pair_at = [&](std::uint32_t array) {
      return reinterpret_cast<const std::uint32_t*>(group + array)[half * kHalfRows / 2 + line()];
    };
    const std::uint32_t f = pair_at(group_.f), other = pair_at(place == 0 ? group_.bias : group_.g);
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const float factor = i == 0 ? from_lower(f) : from_upper(f);
      const float numerator = place >= 2 ? 1.0f : i == 0 ? from_lower(other) : from_upper(other);
      float x = fminf(numerator * fminf(reciprocal(fabsf(factor)), kFar), kFar);
      x = fmaxf(x, -kFar);
      // What is said above is so of negative factors. Of others, all stay.
      if (!(factor <= 0)) x = place == 0 ? -kFar : 0.0f;
      if (place == 3) x = 1;
      const float upper = upper_part(x);
      terms[i] = pair_of(upper, x - upper);
      terms[2 + i] = pair_of(upper, fabsf(upper));
    }
  }

  // Which of the lane's pairs of a group are not ruled out: the first has the highest bit.
  __device__ std::uint32_t survivors(const std::uint8_t* group) const {
    Sums sums[kHalves];
    const std::uint32_t first = threadIdx.x % 4;
    add_step<true>(group, first, sums);
    for (std::uint32_t s = first + 8; s < pair_words(scan_.shape.m); s += 8) {
      add_step<false>(group, s, sums);
    }
    std::uint32_t beyond = 0;
#pragma unroll
    for (unsigned half = 0; half < kHalves; ++half) {
      std::uint32_t terms[4];
      terms_of(group, half, terms);
#pragma unroll
      for (unsigned t = 0; t < kTiles; ++t) {
        float least[4];
        multiply(least, terms, screens_[t].upper, screens_[t].lower);
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
          const float over = __int_as_float(sums[half][t][i]) - kUnits - least[i];
          beyond = __funnelshift_l(__float_as_uint(over), beyond, 1);  // the sign
        }
      }
    }
    return ~beyond & of_list();
  }

  // Which of the lane's pairs have rows of the list.
  __device__ std::uint32_t of_list() const {
    if (position_ >= begin_ && position_ + RabitqGroup::kRows <= end_) return ~0u;
    const std::uint32_t rows =
        RabitqGroup::rows_of(begin_, end_, position_ / RabitqGroup::kRows) >> (2 * line());
    return ((rows & 1u) != 0 ? 0xcccc0000u : 0) | ((rows & 2u) != 0 ? 0x33330000u : 0) |
           ((rows & 1u << 16) != 0 ? 0xccccu : 0) | ((rows & 2u << 16) != 0 ? 0x3333u : 0);
  }

  // Puts a group's survivors into the queue, of which as many as can be are looked at together;
  // after the last group all are.
  __device__ void look_at_survivors(std::uint32_t mask) {
    const unsigned below = (1u << threadIdx.x % kWarpLanes) - 1;
    const bool last = position_ + kStep >= end_;
    while (true) {
      const unsigned votes = __ballot_sync(kWholeWarp, mask != 0);
      if (mask != 0) {
        const unsigned n = __clz(static_cast<int>(mask)), half = n / kPairs, t = n % kPairs / 4;
        queue()[pending_ + __popc(votes & below)] = {
            position_ + half * kHalfRows + 2 * line() + n % 4 / 2,
            t * 8 + threadIdx.x % 4 * 2 + n % 2};
        mask &= ~(0x80000000u >> n);
      }
      pending_ += __popc(votes);
      if (votes == 0 && (!last || pending_ == 0)) break;
      if (pending_ < plan_.record.rows && votes != 0) continue;
      __syncwarp();
      do {
        look_at(min(pending_, plan_.record.rows));
      } while (pending_ >= plan_.record.rows);
    }
  }

  // Looks closely at the last `count` of those that wait.
  __device__ void look_at(std::uint32_t count) {
    const unsigned lane = threadIdx.x % kWarpLanes;
    const Waiting pair = queue()[pending_ - count + min(lane, count - 1)];
    std::byte* const records = own_ + plan_.records;
    ask_records(plan_.record, view_->records, count, pair.position, records);
    const std::uint32_t ordinal = ordinal_of(scan_, *view_, pair.position);
    await_records();
    if (lane < count && ordinal != compute::kNoOrdinal) {
      add(pair, ordinal,
          reinterpret_cast<const std::uint8_t*>(records) + lane * plan_.record.stride);
    }
    pending_ -= count;
    __syncwarp();
  }

  __device__ void add(const Waiting& pair, std::uint32_t ordinal,
                      const std::uint8_t* record) const {
    const QueryTables& of = tables(pair.query);
    const std::uint8_t* group =
        view_->codes + std::size_t{pair.position / RabitqGroup::kRows} * group_.size;
    const std::uint32_t place = pair.position % RabitqGroup::kRows;
    const CodeSums sums =
        code_sums<true>(scan_.shape, group, place, record, words(plan_.words, pair.query),
                        words(plan_.elements, pair.query));
    const SignedRow row{group, place, signs_product(of.of.unit, 2 * sums.signs - of.of.signs)};
    const std::uint64_t key =
        make_key(score_of_codes(scan_.shape, of.of, row, record, sums.codes), ordinal);
    if (key > limit(pair.query)) return;
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
  Screen screens_[kTiles];
  const IvfRunView* view_ = nullptr;
  std::uint32_t begin_ = 0, end_ = 0;  // of the list
  std::uint32_t position_ = 0;
  std::uint32_t pending_ = 0;
};

// A word of each of four lanes: the n-th of them receives the n-th byte of all.
__device__ std::uint32_t transpose(std::uint32_t word) {
  const bool odd = threadIdx.x % 2 != 0, upper = threadIdx.x % 4 >= 2;
  word = __byte_perm(word, __shfl_xor_sync(kWholeWarp, word, 1), odd ? 0x3715 : 0x6240);
  return __byte_perm(word, __shfl_xor_sync(kWholeWarp, word, 2), upper ? 0x3276 : 0x5410);
}

// Makes the tables of a list and of the queries of a unit, four by a warp at a time.
__device__ void make_query_tables(const RabitqScan& scan, const BlockPlan& plan, std::uint32_t list,
                                  const uint2* pairs, std::uint32_t count, std::byte* block) {
  constexpr unsigned kLanes = 8, kAtOnce = kWarpLanes / kLanes;
  auto* const tables = reinterpret_cast<QueryTables*>(block);
  auto* const limits = reinterpret_cast<std::uint64_t*>(block + plan.limits);
  auto* const words = reinterpret_cast<std::uint32_t*>(block + plan.words);
  auto* const elements = reinterpret_cast<std::uint32_t*>(block + plan.elements);
  const float* centroid = scan.centroids + std::size_t{list} * scan.shape.dim;
  for (std::uint32_t i = threadIdx.x / kLanes; i - i % kAtOnce < count; i += kThreads / kLanes) {
    const std::uint32_t query = pairs[min(i, count - 1)].x;
    const RabitqTables made = make_tables<kLanes>(
        scan.shape, scan.product, scan.queries + std::size_t{query} * scan.shape.dim, centroid,
        [&](std::uint32_t k, std::uint32_t w, std::uint32_t v) {
          // Words of w are of elements that follow each other.
          w = transpose(w);
          if (k >= pair_words(scan.shape.m)) return;
          words[i * plan.stride + k / 8 * 8 + k % 4 * 2 + k % 8 / 4] = w;
          elements[i * plan.stride + k] = v;
        });
    if (threadIdx.x % kLanes != 0) continue;
    tables[i] = {made, query, 0};
    limits[i] = scan.best.limits[query];
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

__global__ void __launch_bounds__(kThreads, 6)
    lists_kernel(const __grid_constant__ RabitqScan scan, const IvfPairs pairs) {
  extern __shared__ __align__(16) std::byte memory[];
  if (blockIdx.x >= pairs.first_units[scan.shape.lists]) return;
  if (__syncthreads_or(is_stopped(scan))) return;
  const std::uint32_t list = list_of_unit(pairs.first_units, scan.shape.lists, blockIdx.x);
  const BlockPlan plan(scan.shape);
  const std::uint32_t first =
      pairs.first_pairs[list] + (blockIdx.x - pairs.first_units[list]) * kListQueries;
  const std::uint32_t count = min(pairs.first_pairs[list + 1] - first, kListQueries);
  make_query_tables(scan, plan, list, pairs.pairs + first, count, memory);
  __syncthreads();
  Warp(scan, plan, memory, count).scan_list(list);
}

}  // namespace

bool rabitq_lists_fit(const compute::IvfShape& shape, int capability, std::size_t shared_memory) {
  return capability >= 80 && BlockPlan(shape).size + 1024 <= shared_memory;
}

void launch_rabitq_lists(const RabitqScan& scan, std::uint32_t first, const IvfPairs& pairs,
                         cudaStream_t stream) {
  launch_ivf_pairs({scan.lists, scan.count, scan.list_stride, first, scan.nprobe, scan.shape.lists,
                    kListQueries, pairs},
                   stream);
  const std::size_t bytes = BlockPlan(scan.shape).size;
  check(cudaFuncSetAttribute(lists_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "scanning lists");
  const std::uint32_t most = scan.count * (scan.nprobe - first);
  const std::uint32_t units = most / kListQueries + std::min(scan.shape.lists, most);
  lists_kernel<<<units, kThreads, bytes, stream>>>(scan, pairs);
  check_launch("scanning lists");
}

}  // namespace warplite::gpu

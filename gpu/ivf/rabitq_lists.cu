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
constexpr unsigned kHalfTiles = kTiles / 2;    // whose survivors are put into the queue together
constexpr std::uint32_t kQueue = RabitqGroup::kRows * kListQueries / 2 + kWarpLanes;

// A pair that the signs do not rule out.
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

// What a thread block has in shared memory, in this order: tables and limits of the queries, w, v,
// and of each warp those that wait, groups that come, and records.
struct BlockPlan {
  RecordPlan record;
  std::uint32_t word_stride, element_stride;  // words, from one query to the next
  std::uint32_t limits, words, elements, warps;
  std::uint32_t groups, records, warp_size, size;

  constexpr explicit BlockPlan(const compute::IvfShape& shape)
      : record(shape),
        // So that eight queries' words, four at a time, lie in different banks.
        word_stride(pair_words(shape.m) + 4),
        element_stride(pair_words(shape.m) + 1),
        limits(kListQueries * sizeof(RabitqPairTables)),
        words(limits + kListQueries * 8),
        elements(words + kListQueries * word_stride * 4),
        warps(elements + (kListQueries * element_stride * 4 + 15) / 16 * 16),
        groups(kQueue * sizeof(Waiting)),
        records(groups + kAhead * RabitqGroup(shape.m).size),
        warp_size(records + record.bytes),
        size(warps + kWarps * warp_size) {}
};

// A warp a pair.
__global__ void __launch_bounds__(kThreads)
    pair_tables_kernel(const __grid_constant__ RabitqScan scan, const RabitqPairs pairs) {
  const std::uint32_t slot = blockIdx.x * kWarps + threadIdx.x / kWarpLanes;
  if (slot >= pairs.order.first_pairs[scan.shape.lists]) return;
  const uint2 pair = pairs.order.pairs[slot];
  const std::uint32_t list = scan.lists[std::size_t{pair.x} * scan.list_stride + pair.y];
  const std::uint32_t count = pair_words(scan.shape.m);
  std::uint32_t* const words = pairs.words + std::size_t{slot} * count;
  auto* const elements = reinterpret_cast<std::byte*>(pairs.elements + std::size_t{slot} * count);
  const Tables made =
      make_tables(scan.shape, scan.product, scan.queries + std::size_t{pair.x} * scan.shape.dim,
                  scan.centroids + std::size_t{list} * scan.shape.dim,
                  [&](std::uint32_t s, const int(&w)[4], const int(&v)[4]) {
                    put_elements(s, v, elements);
                    std::uint32_t word = 0;
                    for (unsigned b = 0; b < 4; ++b)
                      word |= (static_cast<std::uint32_t>(w[b]) & 255u) << (8 * b);
                    words[s] = word;
                  });
  if (threadIdx.x % kWarpLanes != 0) return;
  pairs.tables[slot] = {made.a, made.norm, made.unit, made.fine, made.sum, made.signs, pair.x, 0};
}

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

// What a warp does of one list and up to kListQueries queries. A lane has the rows `line`, + 8, +
// 16 and + 24 of a group, line = lane / 4, and of each eight queries two, 2 · (lane % 4) and the
// next.
class Warp {
 public:
  __device__ Warp(const RabitqScan& scan, const BlockPlan& plan, std::byte* block,
                  std::uint32_t queries)
      : scan_(scan),
        plan_(plan),
        block_(block),
        own_(block + plan.warps + threadIdx.x / kWarpLanes * plan.warp_size),
        group_(scan.shape.m),
        queries_(queries) {}

  __device__ void scan_list(std::uint32_t list) {
    for (std::uint32_t r = 0; r < scan_.run_count; ++r) {
      view_ = &scan_.runs[r];
      const std::uint32_t begin = view_->begins[list];
      end_ = view_->begins[list + 1];
      position_ = begin + threadIdx.x / kWarpLanes * RabitqGroup::kRows;
      for (unsigned i = 0; i < kAhead; ++i) fetch(position_ + i * kStep, i);
      for (unsigned slot = 0; position_ < end_; slot = 1 - slot) {
        __pipeline_wait_prior(kAhead - 1);
        __syncwarp();
        scan_group(reinterpret_cast<const std::uint8_t*>(own_ + plan_.groups + slot * group_.size));
        __syncwarp();
        fetch(position_ + kAhead * kStep, slot);
        position_ += kStep;
      }
      while (pending_ != 0) look_at(min(pending_, plan_.record.rows));
    }
  }

 private:
  static constexpr std::uint32_t kStep = kWarps * RabitqGroup::kRows;
  static_assert(kAhead == 2);

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
  __device__ Waiting* queue() const { return reinterpret_cast<Waiting*>(own_); }

  // Σ of the signs' bits times w: of rows below 16 and of the others.
  __device__ void multiply(const std::uint8_t* group, int (&sums)[2][kTiles][4]) const {
    const unsigned lane = threadIdx.x % kWarpLanes, line = lane / 4;
    const auto* words = reinterpret_cast<const std::uint32_t*>(block_ + plan_.words);
    for (std::uint32_t s = lane % 4; s < pair_words(scan_.shape.m); s += 8) {
      // Sub-spaces beyond the last read what follows the codes, and count nothing.
      const std::uint8_t* near = group + s * 16 + line;
      const std::uint8_t* far = near + 4 * 16;
      const std::uint32_t bytes[4] = {near[0], near[8], far[0], far[8]};
      std::uint32_t low[4], high[4];
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        low[i] = spread(bytes[i] & 15u);
        high[i] = spread(bytes[i] >> 4);
      }
#pragma unroll
      for (unsigned t = 0; t < kTiles; ++t) {
        const std::uint32_t* of = words + (t * 8 + line) * plan_.word_stride + s;
        multiply_add(sums[0][t], low, of[0], of[4]);
        multiply_add(sums[1][t], high, of[0], of[4]);
      }
    }
  }

  __device__ SignedRow row_of(const std::uint8_t* group, std::uint32_t place,
                              const RabitqPairTables& tables, int sum) const {
    return {group, place, signs_product(tables.unit, 2 * sum - tables.signs)};
  }

  // Which of the lane's pairs of two tiles the signs do not rule out, a bit for each.
  template <unsigned kFirst>
  __device__ std::uint32_t survivors(const std::uint8_t* group,
                                     const int (&sums)[2][kTiles][4]) const {
    const unsigned lane = threadIdx.x % kWarpLanes;
    std::uint32_t mask = 0;
#pragma unroll
    for (unsigned t = 0; t < kHalfTiles; ++t) {
#pragma unroll
      for (unsigned j = 0; j < 2; ++j) {
        const std::uint32_t query = (kFirst + t) * 8 + lane % 4 * 2 + j;
        const RabitqPairTables& of = tables(query);
        const float most = value_of_key(static_cast<std::uint32_t>(limit(query) >> 32));
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
          const std::uint32_t place = lane / 4 + i * 8;
          const float low = row_of(group, place, of, sums[i / 2][kFirst + t][i % 2 * 2 + j])
                                .low(scan_.shape, of.a, of.norm);
          // What is no number is looked at closely.
          if (query < queries_ && !(low > most)) mask |= 1u << ((t * 2 + j) * 4 + i);
        }
      }
    }
    return mask;
  }

  __device__ void scan_group(const std::uint8_t* group) {
    int sums[2][kTiles][4] = {};
    multiply(group, sums);
    queue_survivors<0>(group, sums);
    queue_survivors<kHalfTiles>(group, sums);
  }

  template <unsigned kFirst>
  __device__ void queue_survivors(const std::uint8_t* group, const int (&sums)[2][kTiles][4]) {
    const std::uint32_t mask = survivors<kFirst>(group, sums);
    if (__ballot_sync(kWholeWarp, mask != 0) == 0) return;
    const unsigned lane = threadIdx.x % kWarpLanes;
    std::uint32_t end = __popc(mask);
    for (unsigned step = 1; step < kWarpLanes; step *= 2) {
      const std::uint32_t before = __shfl_up_sync(kWholeWarp, end, step);
      if (lane >= step) end += before;
    }
    Waiting* next = queue() + pending_ + end - __popc(mask);
#pragma unroll
    for (unsigned t = 0; t < kHalfTiles; ++t) {
#pragma unroll
      for (unsigned j = 0; j < 2; ++j) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
          if ((mask >> ((t * 2 + j) * 4 + i) & 1u) == 0) continue;
          *next++ =
              Waiting::of(position_ + lane / 4 + i * 8, sums[i / 2][kFirst + t][i % 2 * 2 + j],
                          (kFirst + t) * 8 + lane % 4 * 2 + j);
        }
      }
    }
    pending_ += __shfl_sync(kWholeWarp, end, kWarpLanes - 1);
    __syncwarp();
    while (pending_ >= plan_.record.rows) look_at(plan_.record.rows);
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
    const RabitqPairTables& of = tables(pair.query());
    const std::uint32_t low = known_key(signs.low(scan_.shape, of.a, of.norm));
    await_records();
    if (lane < count) add(pair, signs, low, records + lane * plan_.record.stride);
    pending_ -= count;
    __syncwarp();
  }

  __device__ SignedRow signs_of(const Waiting& pair) const {
    return row_of(view_->codes + std::size_t{pair.position / RabitqGroup::kRows} * group_.size,
                  pair.position % RabitqGroup::kRows, tables(pair.query()), pair.sum());
  }

  __device__ void add(const Waiting& pair, const SignedRow& signs, std::uint32_t low,
                      const std::byte* record) const {
    const RabitqPairTables& of = tables(pair.query());
    const std::uint32_t ordinal = ordinal_of(scan_, *view_, record);
    if (ordinal == compute::kNoOrdinal) return;
    const auto* elements = reinterpret_cast<const std::uint32_t*>(block_ + plan_.elements) +
                           pair.query() * plan_.element_stride;
    const std::uint32_t score =
        score_of_record(scan_.shape, {of.a, of.norm, of.unit, of.fine, of.sum, of.signs}, elements,
                        signs, low, reinterpret_cast<const std::uint8_t*>(record));
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
  const std::uint32_t queries_;
  const IvfRunView* view_ = nullptr;
  std::uint32_t position_ = 0, end_ = 0;
  std::uint32_t pending_ = 0;
};

// The queries of a unit; those beyond the last have zeros.
__device__ void load_queries(const RabitqScan& scan, const RabitqPairs& pairs,
                             const BlockPlan& plan, std::uint32_t first, std::uint32_t count,
                             std::byte* block) {
  auto* const tables = reinterpret_cast<RabitqPairTables*>(block);
  auto* const limits = reinterpret_cast<std::uint64_t*>(block + plan.limits);
  for (std::uint32_t i = threadIdx.x; i < kListQueries; i += kThreads) {
    tables[i] = i < count ? pairs.tables[first + i] : RabitqPairTables{};
    limits[i] = i < count ? scan.best.limits[tables[i].query] : 0;
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

__global__ void __launch_bounds__(kThreads)
    lists_kernel(const __grid_constant__ RabitqScan scan, const RabitqPairs pairs) {
  extern __shared__ __align__(16) std::byte memory[];
  const std::uint32_t* first_units = pairs.order.first_units;
  std::uint32_t low = 0, high = scan.shape.lists;
  if (blockIdx.x >= first_units[high]) return;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (first_units[middle] <= blockIdx.x ? low : high) = middle;
  }
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
  launch_ivf_pairs({scan.lists, scan.count, scan.list_stride, pairs.first, scan.nprobe,
                    scan.shape.lists, kListQueries, pairs.order},
                   stream);
  pair_tables_kernel<<<(pairs.most + kWarps - 1) / kWarps, kThreads, 0, stream>>>(scan, pairs);
  const std::size_t bytes = BlockPlan(scan.shape).size;
  check(cudaFuncSetAttribute(lists_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "scanning lists");
  const std::uint32_t units = pairs.most / kListQueries + std::min(scan.shape.lists, pairs.most);
  lists_kernel<<<units, kThreads, bytes, stream>>>(scan, pairs);
  check_launch("scanning lists");
}

}  // namespace warplite::gpu

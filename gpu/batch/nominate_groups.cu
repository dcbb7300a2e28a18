// The product by groups of four warps, whose operands stay in shared memory (compute capability
// 9.0). One warp brings rows in, whole panels at a time by bulk copies; two groups multiply them,
// each at its own pace, so that one's look at its sums overlaps the other's multiplication.
#include "gpu/batch/nominate_common.cuh"
#include "gpu/batch/nominate_kernels.h"
#include "gpu/batch/tensor_core.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kGroupThreads = 128;
constexpr unsigned kGroups = 2;
// The warp that brings rows belongs to a third group, since registers are dealt out by groups:
// it gives up those it does not need to the two that hold sums.
constexpr unsigned kThreads = (kGroups + 1) * kGroupThreads;
constexpr unsigned kGroupRows = 128;  // that a group multiplies at once

// Two groups: each 128 queries with all 128 rows.
struct ManySums {
  static constexpr TileShape kTile = kManyQueries;
  static constexpr unsigned kParts = 2, kPairs = 16;
  static __device__ unsigned first_query(unsigned part) {
    return threadIdx.x / kGroupThreads * 128 + part * 64;
  }
  static __device__ unsigned first_row() { return 0; }
  static __device__ unsigned part_query(unsigned part) {
    return first_query(part) + threadIdx.x / kWarp % 4 * 16 + threadIdx.x % kWarp / 4;
  }
  // Returns the row within the group's rows.
  static __device__ unsigned pair_row(unsigned pair) { return pair * 8 + threadIdx.x % 4 * 2; }
};

// Two groups: each all 64 queries with 128 of 256 rows.
struct FewSums {
  static constexpr TileShape kTile = kFewQueries;
  static constexpr unsigned kParts = 1, kPairs = 16;
  static __device__ unsigned first_query(unsigned) { return 0; }
  static __device__ unsigned first_row() { return threadIdx.x / kGroupThreads * kGroupRows; }
  static __device__ unsigned part_query(unsigned) {
    return threadIdx.x / kWarp % 4 * 16 + threadIdx.x % kWarp / 4;
  }
  static __device__ unsigned pair_row(unsigned pair) { return pair * 8 + threadIdx.x % 4 * 2; }
};

using GroupQueue = Queue<512>;

// kHeld: all of the queries' tile stays in shared memory; else it comes in slabs, as rows do.
template <typename SumsOf, unsigned kSlabElements, unsigned kStageCount, bool kHeldQueries>
struct Shape {
  using Sums = SumsOf;
  static constexpr unsigned kQueries = Sums::kTile.queries;
  static constexpr unsigned kRows = Sums::kTile.rows;
  static constexpr unsigned kSlab = kSlabElements;
  static constexpr unsigned kStages = kStageCount;
  static constexpr bool kHeld = kHeldQueries;
  static constexpr unsigned kSlabBytes = kSlab * 2;
  static constexpr unsigned kQueryStage = kQueries * kSlabBytes;
  static constexpr unsigned kPanelStage = kPanelRows * kSlabBytes;
  static constexpr unsigned kRowStage = kRows * kSlabBytes;
  static constexpr unsigned kTermsBytes = kGroups * 2 * kGroupRows * sizeof(float4);

  static constexpr std::size_t query_bytes(unsigned slabs) {
    return std::size_t{kQueryStage} * (kHeld ? slabs : kStages);
  }
  static constexpr std::size_t shared_bytes(unsigned slabs) {
    return query_bytes(slabs) + kRowStage * kStages + kTermsBytes +
           kGroups * GroupQueue::kBytes + kQueries * sizeof(float) +
           (2 * kStages + 1) * sizeof(std::uint64_t) + kGroups * sizeof(std::uint32_t);
  }
};

template <typename S>
class Product {
  using Sums = typename S::Sums;
  static constexpr unsigned kParts = Sums::kParts, kPairs = Sums::kPairs;

 public:
  __device__ Product(const Nominate& work, std::byte* shared, unsigned query_tile,
                     unsigned first_tile, unsigned end_tile)
      : work_(work),
        slabs_(padded_elements(work.dim) / S::kSlab),
        first_query_(query_tile * S::kQueries),
        first_tile_(first_tile),
        end_tile_(end_tile) {
    const auto take = [&shared](std::size_t bytes) {
      std::byte* const at = shared;
      shared += bytes;
      return at;
    };
    queries_ = shared_address(take(S::query_bytes(slabs_)));
    rows_ = shared_address(take(S::kRowStage * S::kStages));
    terms_ = reinterpret_cast<float4*>(take(S::kTermsBytes));
    queue_.items = reinterpret_cast<Found*>(take(kGroups * GroupQueue::kBytes));
    const std::byte* barriers = take((2 * S::kStages + 1) * sizeof(std::uint64_t));
    full_ = shared_address(barriers);
    free_ = full_ + S::kStages * 8;
    held_ = free_ + S::kStages * 8;
    limits_ = reinterpret_cast<float*>(take(S::kQueries * sizeof(float)));
    queue_.count = reinterpret_cast<std::uint32_t*>(shared);
    prepare();
  }

  __device__ void run() {
    if (threadIdx.x >= kGroups * kGroupThreads) {
      give_registers<24>();
      if (threadIdx.x == kGroups * kGroupThreads) bring();
    } else {
      take_registers<240>();
      multiply();
    }
  }

 private:
  __device__ void prepare() {
    for (unsigned i = threadIdx.x; i < S::kQueries; i += kThreads) {
      limits_[i] = work_.nominees.limits[first_query_ + i];
    }
    if (threadIdx.x < kGroups) queue_.count[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
      for (unsigned stage = 0; stage < S::kStages; ++stage) {
        make_barrier(full_ + stage * 8, 1);
        make_barrier(free_ + stage * 8, kGroups * kGroupThreads / kWarp);
      }
      make_barrier(held_, 1);
      publish_shared();
    }
    __syncthreads();
    const unsigned group = threadIdx.x / kGroupThreads % kGroups;
    queue_.items += group * (GroupQueue::kBytes / sizeof(Found));
    queue_.count += group;
    terms_ += group * 2 * kGroupRows;
  }

  // One thread: fills stages as they become free.
  __device__ void bring() {
    const std::uint16_t* halves =
        work_.prepared.halves + std::size_t{first_query_} * padded_elements(work_.dim);
    if constexpr (S::kHeld) {
      expect_bytes(held_, slabs_ * S::kQueryStage);
      copy_bulk(queries_, halves, slabs_ * S::kQueryStage, held_);
    }
    unsigned step = 0;
    for (unsigned number = first_tile_; number < end_tile_; ++number) {
      const RowTile tile = work_.tiles[number];
      const unsigned panels = (tile.count + kPanelRows - 1) / kPanelRows;
      for (unsigned slab = 0; slab < slabs_; ++slab, ++step) {
        const unsigned stage = step % S::kStages;
        if (step >= S::kStages) wait_barrier(free_ + stage * 8, (step / S::kStages - 1) & 1);
        const std::uint32_t full = full_ + stage * 8;
        expect_bytes(full, panels * S::kPanelStage + (S::kHeld ? 0 : S::kQueryStage));
        for (unsigned panel = 0; panel < panels; ++panel) {
          copy_bulk(rows_ + stage * S::kRowStage + panel * S::kPanelStage,
                    tile.rows + std::size_t{panel} * kPanelRows * padded_elements(work_.dim) +
                        std::size_t{slab} * kPanelRows * S::kSlab,
                    S::kPanelStage, full);
        }
        if constexpr (!S::kHeld) {
          copy_bulk(queries_ + stage * S::kQueryStage,
                    halves + std::size_t{slab} * S::kQueries * S::kSlab, S::kQueryStage, full);
        }
      }
    }
  }

  // The groups: sums of one tile after another.
  __device__ void multiply() {
    const QueryExtremes extremes = load_extremes(work_.prepared.extremes, work_.dim);
    const unsigned thread = threadIdx.x % kGroupThreads;
    const unsigned name = 1 + threadIdx.x / kGroupThreads;
    if constexpr (S::kHeld) wait_barrier(held_, 0);
    float sums[kParts][kPairs][4];
    unsigned step = 0;
    for (unsigned number = first_tile_; number < end_tile_; ++number) {
      const RowTile tile = work_.tiles[number];
      float4* const terms = terms_ + number % 2 * kGroupRows;
      for (unsigned slab = 0; slab < slabs_; ++slab, ++step) {
        wait_barrier(full_ + step % S::kStages * 8, (step / S::kStages) & 1);
        add_slab(sums, step % S::kStages, slab);
        if (slab == 0) terms[thread] = row_terms(work_, tile, Sums::first_row() + thread, extremes);
        if (slab != 0) {
          wait_for_groups<1>();
          release(step - 1);
        }
      }
      const bool flush = group_barrier_or(name, queue_.wants_flush());
      wait_for_groups<0>();
      release(step - 1);
      if (flush) empty_queue(name, thread);
      const Finish<Sums> finish{work_.nominees, terms, limits_, first_query_,
                                tile.first_ordinal + Sums::first_row()};
      if (work_.keep_all) {
        finish.keep_all(sums, number * S::kRows + Sums::first_row());
      } else {
        finish.nominate(sums, queue_);
      }
    }
    group_barrier_or(name, false);
    queue_.flush(work_.nominees, thread, kGroupThreads);
  }

  __device__ void empty_queue(unsigned name, unsigned thread) {
    queue_.flush(work_.nominees, thread, kGroupThreads);
    group_barrier_or(name, false);
    if (thread == 0) *queue_.count = 0;
    group_barrier_or(name, false);
  }

  __device__ void release(unsigned step) {
    if (threadIdx.x % kWarp == 0) arrive_barrier(free_ + step % S::kStages * 8);
  }

  // Begins to add the products of one slab; the first of a tile starts from zero.
  __device__ void add_slab(float (&sums)[kParts][kPairs][4], unsigned stage, unsigned slab) {
    const std::uint32_t queries = queries_ + (S::kHeld ? slab : stage) * S::kQueryStage;
    const std::uint32_t rows =
        rows_ + stage * S::kRowStage + Sums::first_row() * S::kSlabBytes;
    begin_group();
#pragma unroll
    for (unsigned k = 0; k < S::kSlab / 16; ++k) {
      const std::uint64_t b = operand_descriptor<S::kSlabBytes>(rows + k * 32);
#pragma unroll
      for (unsigned part = 0; part < kParts; ++part) {
        const std::uint64_t a = operand_descriptor<S::kSlabBytes>(
            queries + Sums::first_query(part) * S::kSlabBytes + k * 32);
        multiply_group(sums[part], a, b, slab != 0 || k != 0);
      }
    }
    commit_group();
  }

  const Nominate& work_;
  const unsigned slabs_;
  const unsigned first_query_, first_tile_, end_tile_;
  std::uint32_t queries_, rows_;         // in shared memory
  std::uint32_t full_, free_, held_;     // barriers: stages, stages, one
  float4* terms_;                        // of this group, for two tiles in turn
  GroupQueue queue_;                     // of this group
  float* limits_;
};

template <typename S>
__global__ void __launch_bounds__(kThreads, 1)
    groups_kernel(const __grid_constant__ Nominate work, unsigned query_tiles, unsigned splits) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) std::byte shared[];
  const unsigned query_tile = blockIdx.x % query_tiles, split = blockIdx.x / query_tiles;
  const unsigned begin = split_bound(work.tile_count, split, splits);
  const unsigned end = split_bound(work.tile_count, split + 1, splits);
  if (begin < end) Product<S>(work, shared, query_tile, begin, end).run();
#endif
}

template <typename S>
void launch(const Nominate& work, cudaStream_t stream) {
  const unsigned slabs = padded_elements(work.dim) / S::kSlab;
  const std::size_t bytes = S::shared_bytes(slabs);
  check(cudaFuncSetAttribute(groups_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "nominating rows");
  const unsigned query_tiles = (work.nominees.queries + S::kQueries - 1) / S::kQueries;
  const unsigned splits = choose_splits(query_tiles, work.tile_count, work.multiprocessors);
  groups_kernel<S><<<query_tiles * splits, kThreads, bytes, stream>>>(work, query_tiles, splits);
  check_launch("nominating rows");
}

// Held queries take 32 KB for each 64 elements; up to 192 elements leave room for the rows.
constexpr std::uint32_t kHeldElements = 192;

template <typename Sums, unsigned kSlab>
void launch_slab(const Nominate& work, cudaStream_t stream) {
  if (padded_elements(work.dim) <= kHeldElements) {
    launch<Shape<Sums, kSlab, 256 / kSlab, true>>(work, stream);
  } else {
    launch<Shape<Sums, kSlab, 256 / kSlab, false>>(work, stream);
  }
}

template <typename Sums>
void launch_sums(const Nominate& work, cudaStream_t stream) {
  if (slab_elements(work.dim) == 64) {
    launch_slab<Sums, 64>(work, stream);
  } else {
    launch_slab<Sums, 32>(work, stream);
  }
}

}  // namespace

bool groups_are_built() {
#if defined(WARPLITE_SM90A)
  return true;
#else
  return false;
#endif
}

void launch_groups(const Nominate& work, cudaStream_t stream) {
  if (work.shape == kFewQueries) {
    launch_sums<FewSums>(work, stream);
  } else {
    launch_sums<ManySums>(work, stream);
  }
}

}  // namespace warplite::gpu

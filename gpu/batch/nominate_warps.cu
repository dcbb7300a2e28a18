// The product by single warps, for every GPU from compute capability 8.0 on.
#include "gpu/batch/nominate_common.cuh"
#include "gpu/batch/nominate_kernels.h"
#include "gpu/batch/tensor_core.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;

// Eight warps, four down and two across, each a quarter of the queries with 64 rows.
template <unsigned kTileQueries>
struct WarpSums {
  static constexpr unsigned kWarpQueries = kTileQueries / 4;
  static constexpr unsigned kParts = kWarpQueries / 16, kPairs = 8;
  static __device__ unsigned first_query() { return threadIdx.x / kWarp / 2 * kWarpQueries; }
  static __device__ unsigned part_query(unsigned part) {
    return first_query() + part * 16 + threadIdx.x % kWarp / 4;
  }
  static __device__ unsigned pair_row(unsigned pair) {
    return threadIdx.x / kWarp % 2 * 64 + pair * 8 + threadIdx.x % 4 * 2;
  }
};

using WarpQueue = Queue<512>;

template <unsigned kSlab, unsigned kQueries, unsigned kStages>
class Product {
  using Sums = WarpSums<kQueries>;
  static constexpr unsigned kParts = Sums::kParts, kPairs = Sums::kPairs;
  static constexpr unsigned kRows = kPanelRows;
  static constexpr unsigned kSlabBytes = kSlab * 2;
  static constexpr unsigned kQueryStage = kQueries * kSlabBytes, kRowStage = kRows * kSlabBytes;

 public:
  static constexpr std::size_t kSharedBytes = (kQueryStage + kRowStage) * kStages +
                                              kRows * sizeof(float4) + WarpQueue::kBytes +
                                              kQueries * sizeof(float) + sizeof(std::uint32_t);

  __device__ Product(const Nominate& work, std::byte* shared, unsigned query_tile)
      : work_(work),
        slabs_(padded_elements(work.dim) / kSlab),
        first_query_(query_tile * kQueries),
        halves_(work.prepared.halves + std::size_t{first_query_} * padded_elements(work.dim)),
        stages_(shared_address(shared)),
        terms_(reinterpret_cast<float4*>(shared + (kQueryStage + kRowStage) * kStages)) {
    queue_.items = reinterpret_cast<Found*>(terms_ + kRows);
    limits_ = reinterpret_cast<float*>(queue_.items + WarpQueue::kBytes / sizeof(Found));
    queue_.count = reinterpret_cast<std::uint32_t*>(limits_ + kQueries);
  }

  __device__ void run(unsigned first_tile, unsigned end_tile) {
    const QueryExtremes extremes = load_extremes(work_.prepared.extremes, work_.dim);
    for (unsigned i = threadIdx.x; i < kQueries; i += kThreads) {
      limits_[i] = work_.nominees.limits[first_query_ + i];
    }
    if (threadIdx.x == 0) *queue_.count = 0;
    const unsigned steps = (end_tile - first_tile) * slabs_;
    unsigned loaded = 0;
    for (; loaded < kStages - 1; ++loaded) load_step(first_tile, loaded, steps);
    float sums[kParts][kPairs][4];
    for (unsigned step = 0; step < steps; ++step, ++loaded) {
      wait_for_copies<kStages - 2>();
      if (__syncthreads_or(queue_.wants_flush()) != 0) empty_queue();
      load_step(first_tile, loaded, steps);
      const unsigned number = first_tile + step / slabs_, slab = step % slabs_;
      const RowTile tile = work_.tiles[number];
      if (slab == 0) {
        clear(sums);
        if (threadIdx.x < kRows) {
          terms_[threadIdx.x] = row_terms(work_, tile, threadIdx.x, extremes);
        }
      }
      multiply(sums, step % kStages);
      if (slab + 1 != slabs_) continue;
      if (slabs_ == 1) __syncthreads();
      const Finish<Sums> finish{work_.nominees, terms_, limits_, first_query_,
                                    tile.first_ordinal};
      if (work_.keep_all) {
        finish.keep_all(sums, number * kRows);
      } else {
        finish.nominate(sums, queue_);
      }
    }
    wait_for_copies<0>();
    __syncthreads();
    queue_.flush(work_.nominees, threadIdx.x, kThreads);
  }

 private:
  __device__ void empty_queue() {
    queue_.flush(work_.nominees, threadIdx.x, kThreads);
    __syncthreads();
    if (threadIdx.x == 0) *queue_.count = 0;
    __syncthreads();
  }

  // Every thread commits a group for every step, also when nothing is left to load, so that the
  // number of groups under way says which step has arrived.
  __device__ void load_step(unsigned first_tile, unsigned step, unsigned steps) {
    if (step < steps) {
      const unsigned slab = step % slabs_;
      const std::uint32_t to = stages_ + step % kStages * (kQueryStage + kRowStage);
      copy(to, halves_ + std::size_t{slab} * kQueries * kSlab, kQueryStage);
      copy(to + kQueryStage,
           work_.tiles[first_tile + step / slabs_].rows + std::size_t{slab} * kRows * kSlab,
           kRowStage);
    }
    commit_copies();
  }

  __device__ static void copy(std::uint32_t to, const std::uint16_t* from, unsigned bytes) {
    for (unsigned at = threadIdx.x * 16; at < bytes; at += kThreads * 16) {
      copy_async(to + at, reinterpret_cast<const std::byte*>(from) + at);
    }
  }

  __device__ static void clear(float (&sums)[kParts][kPairs][4]) {
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
#pragma unroll
      for (unsigned j = 0; j < kPairs; ++j) {
#pragma unroll
        for (unsigned c = 0; c < 4; ++c) sums[i][j][c] = 0;
      }
    }
  }

  __device__ void multiply(float (&sums)[kParts][kPairs][4], unsigned stage) const {
    const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    const unsigned query = Sums::first_query() + (lane & 15);
    const unsigned row = warp % 2 * 64 + (lane & 7) + (lane >> 4) * 8;
    const std::uint32_t queries = stages_ + stage * (kQueryStage + kRowStage);
    const std::uint32_t rows = queries + kQueryStage;
#pragma unroll
    for (unsigned k = 0; k < kSlab / 16; ++k) {
      std::uint32_t a[kParts][4], b[kPairs / 2][4];
#pragma unroll
      for (unsigned i = 0; i < kParts; ++i) {
        load_matrices(a[i],
                      queries + slab_offset(query + i * 16, 2 * k + (lane >> 4), kSlab) * 16);
      }
#pragma unroll
      for (unsigned j = 0; j < kPairs / 2; ++j) {
        load_matrices(b[j],
                      rows + slab_offset(row + j * 16, 2 * k + ((lane >> 3) & 1), kSlab) * 16);
      }
#pragma unroll
      for (unsigned i = 0; i < kParts; ++i) {
#pragma unroll
        for (unsigned j = 0; j < kPairs; ++j) {
          multiply_add(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  }

  const Nominate& work_;
  const unsigned slabs_;
  const unsigned first_query_;
  const std::uint16_t* const halves_;
  const std::uint32_t stages_;  // in shared memory
  float4* const terms_;
  WarpQueue queue_;
  float* limits_;
};

template <unsigned kSlab, unsigned kQueries, unsigned kStages>
__global__ void __launch_bounds__(kThreads, 1)
    warps_kernel(const __grid_constant__ Nominate work, unsigned query_tiles, unsigned splits) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) std::byte shared[];
  const unsigned query_tile = blockIdx.x % query_tiles, split = blockIdx.x / query_tiles;
  const unsigned begin = split_bound(work.tile_count, split, splits);
  const unsigned end = split_bound(work.tile_count, split + 1, splits);
  if (begin < end) Product<kSlab, kQueries, kStages>(work, shared, query_tile).run(begin, end);
#endif
}

template <unsigned kSlab, unsigned kQueries, unsigned kStages>
void launch(const Nominate& work, cudaStream_t stream) {
  const auto kernel = warps_kernel<kSlab, kQueries, kStages>;
  constexpr std::size_t kBytes = Product<kSlab, kQueries, kStages>::kSharedBytes;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kBytes)),
        "nominating rows");
  const unsigned query_tiles = (work.nominees.queries + kQueries - 1) / kQueries;
  const unsigned splits = choose_splits(query_tiles, work.tile_count, work.multiprocessors);
  kernel<<<query_tiles * splits, kThreads, kBytes, stream>>>(work, query_tiles, splits);
  check_launch("nominating rows");
}

// The shared memory of a thread block of capability 8.0 is enough for three stages of the large
// tile; that of 8.6, 8.9 and 12.0 is enough for two of the small one.
constexpr unsigned kManyStages = 3, kSmallStages = 2;

template <unsigned kSlab>
void launch_slab(const Nominate& work, cudaStream_t stream) {
  if (work.shape == kSmallTile) {
    launch<kSlab, kSmallTile.queries, kSmallStages>(work, stream);
  } else {
    launch<kSlab, kManyQueries.queries, kManyStages>(work, stream);
  }
}

template <unsigned kSlab>
std::size_t shared_memory(TileShape shape) {
  return shape == kSmallTile ? Product<kSlab, kSmallTile.queries, kSmallStages>::kSharedBytes
                             : Product<kSlab, kManyQueries.queries, kManyStages>::kSharedBytes;
}

static_assert(kManyQueries.rows == kPanelRows && kSmallTile.rows == kPanelRows);
static_assert(Product<64, kManyQueries.queries, kManyStages>::kSharedBytes <= 163 << 10);
static_assert(Product<64, kSmallTile.queries, kSmallStages>::kSharedBytes <= 99 << 10);

}  // namespace

std::size_t warps_shared_memory(TileShape shape, std::uint32_t dim) {
  return slab_elements(dim) == 64 ? shared_memory<64>(shape) : shared_memory<32>(shape);
}

void launch_warps(const Nominate& work, cudaStream_t stream) {
  if (slab_elements(work.dim) == 64) {
    launch_slab<64>(work, stream);
  } else {
    launch_slab<32>(work, stream);
  }
}

}  // namespace warplite::gpu

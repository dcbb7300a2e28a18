// Limits to begin with (rabitq.h): of the first lists of each query, what the signs say that rows
// do not exceed, as a rule, and of all these the worst of as many as are wanted.
#include "gpu/ivf/rabitq_unit.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/kth_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
// Keys of a group: the better of each two rows.
constexpr std::uint32_t kGroupKeys = RabitqGroup::kRows / 2;
constexpr std::uint32_t kNoBound = ~0u;
// That a block may hold in shared memory.
constexpr std::uint32_t kHeldKeys = 8192;

// What a lane has of a query.
struct Line {
  float scale, start;  // s·x = scale · (sum of bits times w) + start
  float norm, a;
};

// What a warp does of a unit.
template <unsigned kTiles>
class Warp {
 public:
  __device__ Warp(const RabitqScan& scan, const RabitqBounds& bounds, const Unit<kTiles>& unit)
      : scan_(scan),
        bounds_(bounds),
        unit_(unit),
        walk_(scan, unit.memory + unit.plan.size +
                        threadIdx.x / kWarpLanes * GroupWalk::bytes(scan.shape)) {}

  __device__ void run() {
    walk_.run(
        unit_.list,
        [this](const std::uint8_t* group) {
          bound(group);
          return 0;
        },
        [this](int) { ++seen_; });
  }

 private:
  __device__ Line line(std::uint32_t query) const {
    const RabitqTables& of = unit_.tables(query).of;
    return {2 * of.unit, -of.unit * static_cast<float>(of.signs),
            scan_.shape.planes == 1 ? 0.0f : of.norm, of.a};
  }

  __device__ void bound(const std::uint8_t* group) const {
    SignSums<kTiles> sums;
    sum_signs(unit_, group, scan_.shape.m, 0, sums);
    const std::uint32_t own = walk_.rows() >> (2 * line_of_lane());
#pragma unroll
    for (unsigned t = 0; t < kTiles; ++t) {
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) {
        const std::uint32_t query = t * kTileQueries + threadIdx.x % 4 * 2 + i;
        if (query >= unit_.queries) continue;
        const Line of = line(query);
#pragma unroll
        for (unsigned half = 0; half < kHalves; ++half) {
          keep(query, half,
               key_of(group, half, own >> (half * kHalfRows), of, sums[half][t][i],
                      sums[half][t][2 + i]));
        }
      }
    }
  }

  // Of a lane's two rows of half a group, by their sums, the better one's bound.
  __device__ std::uint32_t key_of(const std::uint8_t* group, unsigned half, std::uint32_t rows,
                                  const Line& of, int first, int second) const {
    const auto both = [&](std::uint32_t array) {
      return reinterpret_cast<const std::uint32_t*>(group +
                                                    array)[half * kHalfRows / 2 + line_of_lane()];
    };
    const std::uint32_t bias = both(walk_.group().bias), f = both(walk_.group().f),
                        g = both(walk_.group().g);
    const auto bound = [&](std::uint32_t row, int sum) {
      if ((rows >> row & 1u) == 0) return kNoBound;
      const auto part = [row](std::uint32_t pair) {
        return __uint_as_float(row == 0 ? pair << 16 : pair & 0xffff0000u);
      };
      const float product = of.scale * static_cast<float>(sum) + of.start;
      return known_key(of.a + part(bias) + part(f) * product + part(g) * of.norm);
    };
    return min(bound(0, first), bound(1, second));
  }

  __device__ void keep(std::uint32_t query, unsigned half, std::uint32_t key) const {
    const QueryTables& of = unit_.tables(query);
    const std::uint32_t turn = seen_ % (bounds_.groups / kUnitWarps);
    const std::uint32_t place =
        ((turn * kUnitWarps + threadIdx.x / kWarpLanes) * kHalves + half) * kGroupKeys / kHalves +
        line_of_lane();
    std::uint32_t* const at = bounds_.keys + std::size_t{of.query} * bounds_.stride +
                              of.probe * bounds_.groups * kGroupKeys + place;
    // Of longer lists a few groups share a place.
    *at = seen_ < bounds_.groups / kUnitWarps ? key : min(key, *at);
  }

  const RabitqScan& scan_;
  const RabitqBounds& bounds_;
  const Unit<kTiles>& unit_;
  GroupWalk walk_;
  std::uint32_t seen_ = 0;  // groups
};

template <unsigned kTiles>
__global__ void __launch_bounds__(kUnitThreads, kTiles == kMostTiles ? 5 : 8)
    bounds_kernel(const __grid_constant__ RabitqScan scan, const IvfPairs pairs,
                  const RabitqBounds bounds) {
  extern __shared__ __align__(16) std::byte memory[];
  if (has_no_unit(scan, pairs)) return;
  const Unit<kTiles> unit = make_unit<kTiles>(scan, pairs, memory);
  Warp<kTiles>(scan, bounds, unit).run();
}

// One thread block per query.
__global__ void __launch_bounds__(kThreads)
    limits_kernel(RabitqBounds bounds, RabitqBest best, std::uint32_t wanted, bool held) {
  extern __shared__ std::uint32_t own[];
  __shared__ KthKey<kThreads, std::uint32_t> kth;
  const std::uint32_t* keys = bounds.keys + std::size_t{blockIdx.x} * bounds.stride;
  if (held) {
    for (std::uint32_t i = threadIdx.x; i < bounds.stride; i += kThreads) own[i] = keys[i];
    keys = own;
  }
  __syncthreads();
  const std::uint32_t key =
      kth.find([keys](std::uint32_t i) { return keys[i]; }, bounds.stride, wanted);
  if (threadIdx.x == 0) best.limits[blockIdx.x] = std::uint64_t{key} << 32 | 0xffffffffu;
}

}  // namespace

RabitqBounds rabitq_bounds(std::uint32_t lists, std::uint32_t rows) {
  constexpr std::uint32_t kMostGroups = 32;
  std::uint32_t groups = kUnitWarps;
  while (groups < kMostGroups && groups * RabitqGroup::kRows < rows) groups *= 2;
  return {nullptr, lists * groups * kGroupKeys, lists, groups};
}

void launch_guess_limits(const RabitqScan& scan, const RabitqUnits& units,
                         const RabitqBounds& bounds, cudaStream_t stream) {
  check(cudaMemsetAsync(bounds.keys, 0xff,
                        std::size_t{scan.count} * bounds.stride * sizeof *bounds.keys, stream),
        "scanning lists");
  for_tiles(units.tiles, [&]<unsigned kTiles>() {
    const std::size_t bytes =
        UnitPlan<kTiles>(scan.shape).size + kUnitWarps * GroupWalk::bytes(scan.shape);
    check(cudaFuncSetAttribute(bounds_kernel<kTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          "scanning lists");
    bounds_kernel<kTiles><<<units.most, kUnitThreads, bytes, stream>>>(scan, units.pairs, bounds);
  });
  const bool held = bounds.stride <= kHeldKeys;
  limits_kernel<<<scan.count, kThreads, held ? bounds.stride * sizeof *bounds.keys : 0, stream>>>(
      bounds, scan.best, scan.wanted, held);
  check_launch("scanning lists");
}

}  // namespace warplite::gpu

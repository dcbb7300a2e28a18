// Lists of RaBitQ codes, each with the queries that probe it (rabitq.h).
#include <algorithm>

#include "gpu/ivf/rabitq_unit.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr std::uint32_t kQueue = 2 * kWarpLanes;

// A pair that is not ruled out.
struct Waiting {
  std::uint32_t position;  // of the row
  std::int16_t sum;        // of the signs' bits times w, of up to kHeldSumDims
  std::uint16_t query;     // of the unit
};
constexpr std::uint32_t kHeldSumDims = 1024;
static_assert(31 * kHeldSumDims < 0x8000);

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

// What a thread block has in shared memory, in this order: its unit, and of each warp those that
// wait, the sums of a group, the groups that come, and records.
template <unsigned kTiles>
struct BlockPlan {
  // Bytes of the sums of a warp's pairs of a group.
  static constexpr std::uint32_t kHeldSums =
      RabitqGroup::kRows * UnitPlan<kTiles>::kQueries * sizeof(std::int16_t);
  RecordPlan record;
  std::uint32_t warps, sums, groups, records, warp_size, size;

  constexpr explicit BlockPlan(const compute::IvfShape& shape)
      : record(shape),
        warps(UnitPlan<kTiles>(shape).size),
        // None: they may not fit 16 bits, and are made again.
        sums(shape.dim <= kHeldSumDims ? kQueue * sizeof(Waiting) : 0),
        groups(kQueue * sizeof(Waiting) + (sums == 0 ? 0 : kHeldSums)),
        records(groups + GroupWalk::bytes(shape)),
        warp_size(records + record.bytes),
        size(warps + kUnitWarps * warp_size) {}
};

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

// What a warp does of a unit.
template <unsigned kTiles>
class Warp {
 public:
  __device__ Warp(const RabitqScan& scan, const BlockPlan<kTiles>& plan, const Unit<kTiles>& unit)
      : scan_(scan),
        plan_(plan),
        unit_(unit),
        own_(unit.memory + plan.warps + threadIdx.x / kWarpLanes * plan.warp_size),
        walk_(scan, own_ + plan.groups) {
#pragma unroll
    for (unsigned t = 0; t < kTiles; ++t) {
      const std::uint32_t query = t * kTileQueries + line_of_lane();
      screens_[t] =
          Screen(scan.shape, unit.tables(query).of, unit.limit(query), query < unit.queries);
    }
  }

  __device__ void run() {
    walk_.run(
        unit_.list, [this](const std::uint8_t* group) { return survivors(group); },
        [this](std::uint32_t mask) { look_at_survivors(mask); });
  }

 private:
  // A lane's pairs of half a group, and of a group. Masks have them in the highest bits.
  static constexpr unsigned kHalfPairs = kTiles * 4, kPairs = kHalves * kHalfPairs;
  static_assert(kPairs <= 32);

  __device__ Waiting* queue() const {
    return reinterpret_cast<Waiting*>(own_);
  }

  // What tensor cores take of the rows of half a group: by the lane's place among four bias/|f|,
  // g/|f|, 1/|f|, or 1.
  __device__ void terms_of(const std::uint8_t* group, unsigned half,
                           std::uint32_t (&terms)[4]) const {
    const unsigned place = threadIdx.x % 4;
    const auto pair_at = [&](std::uint32_t array) {
      return reinterpret_cast<const std::uint32_t*>(group +
                                                    array)[half * kHalfRows / 2 + line_of_lane()];
    };
    const std::uint32_t f = pair_at(walk_.group().f),
                        other = pair_at(place == 0 ? walk_.group().bias : walk_.group().g);
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
    SignSums<kTiles> sums;
    sum_signs(unit_, group, scan_.shape.m, __float_as_int(kUnits), sums);
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
    const std::uint32_t mask = ~beyond << (32 - kPairs) & of_list();
    if (mask != 0 && plan_.sums != 0) hold(sums);
    return mask;
  }

  // The sums of a lane's pairs, 16 bits each, in the order of the mask.
  __device__ void hold(const SignSums<kTiles>& sums) const {
    const auto two = [&](unsigned n) {
      const int(&four)[4] = sums[n / kHalfPairs][n / 4 % kTiles];
      return __byte_perm(four[n % 4], four[n % 4 + 1], 0x5410);
    };
#pragma unroll
    for (unsigned n = 0; n < kPairs; n += 8) {
      held(n) = {two(n), two(n + 2), two(n + 4), two(n + 6)};
    }
  }
  // The lane's from the n-th to the seventh after it.
  __device__ uint4& held(unsigned n) const {
    return reinterpret_cast<uint4*>(own_ +
                                    plan_.sums)[n / 8 * kWarpLanes + threadIdx.x % kWarpLanes];
  }
  __device__ int held_sum(unsigned n) const {
    return plan_.sums == 0 ? 0 : reinterpret_cast<const std::int16_t*>(&held(n))[n % 8];
  }

  // Which of the lane's pairs have rows of the list.
  __device__ std::uint32_t of_list() const {
    const std::uint32_t rows = walk_.rows();
    if (rows == ~0u) return rows;
    constexpr std::uint32_t kFirst = 0xccccccccu, kSecond = 0x33333333u;  // rows of a half
    constexpr std::uint32_t kUpper = ~0u << (32 - kHalfPairs), kLower = kUpper >> kHalfPairs;
    const auto own = [&](unsigned row) { return (rows >> (2 * line_of_lane() + row) & 1u) != 0; };
    const std::uint32_t upper = (own(0) ? kFirst : 0) | (own(1) ? kSecond : 0),
                        lower = (own(kHalfRows) ? kFirst : 0) | (own(kHalfRows + 1) ? kSecond : 0);
    return (upper & kUpper) | (lower & kLower);
  }

  // Puts a group's survivors into the queue, of which as many as can be are looked at together;
  // after the last group all are.
  __device__ void look_at_survivors(std::uint32_t mask) {
    const unsigned below = (1u << threadIdx.x % kWarpLanes) - 1;
    const bool last = walk_.is_last();
    while (true) {
      const unsigned votes = __ballot_sync(kWholeWarp, mask != 0);
      if (mask != 0) {
        const unsigned n = __clz(static_cast<int>(mask)), half = n / kHalfPairs,
                       t = n % kHalfPairs / 4;
        queue()[pending_ + __popc(votes & below)] = {
            walk_.position() + half * kHalfRows + 2 * line_of_lane() + n % 4 / 2,
            static_cast<std::int16_t>(held_sum(n)),
            static_cast<std::uint16_t>(t * kTileQueries + threadIdx.x % 4 * 2 + n % 2)};
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
    ask_records(plan_.record, walk_.view().records, count, pair.position, records);
    const std::uint32_t ordinal = ordinal_of(walk_.view(), pair.position);
    await_records();
    if (lane < count) {
      add(pair, ordinal,
          reinterpret_cast<const std::uint8_t*>(records) + lane * plan_.record.stride);
    }
    pending_ -= count;
    __syncwarp();
  }

  __device__ void add(const Waiting& pair, std::uint32_t ordinal,
                      const std::uint8_t* record) const {
    const QueryTables& of = unit_.tables(pair.query);
    const std::uint8_t* group =
        walk_.view().codes + std::size_t{pair.position / RabitqGroup::kRows} * walk_.group().size;
    const std::uint32_t place = pair.position % RabitqGroup::kRows;
    const std::uint32_t *const w = unit_.words(pair.query), *const v = unit_.elements(pair.query);
    const CodeSums sums = plan_.sums == 0
                              ? code_sums<true>(scan_, group, place, record, w, v)
                              : code_sums<false>(scan_, group, place, record, w, v);
    const int signs = plan_.sums == 0 ? sums.signs : pair.sum;
    const SignedRow row{group, place, signs_product(of.of.unit, 2 * signs - of.of.signs)};
    const std::uint64_t key =
        make_key(score_of_codes(scan_, of.of, row, record, sums.codes), ordinal);
    if (key > unit_.limit(pair.query)) return;
    const std::uint32_t slot = atomicAdd(&scan_.best.counts[of.query], 1u);
    if (slot < scan_.best.stride) {
      scan_.best.keys[std::size_t{of.query} * scan_.best.stride + slot] = key;
    }
  }

  const RabitqScan& scan_;
  const BlockPlan<kTiles>& plan_;
  const Unit<kTiles>& unit_;
  std::byte* const own_;
  GroupWalk walk_;
  Screen screens_[kTiles];
  std::uint32_t pending_ = 0;
};

template <unsigned kTiles>
__global__ void __launch_bounds__(kUnitThreads, kTiles == kMostTiles ? 6 : 8)
    lists_kernel(const __grid_constant__ RabitqScan scan, const IvfPairs pairs) {
  extern __shared__ __align__(16) std::byte memory[];
  if (has_no_unit(scan, pairs)) return;
  const BlockPlan<kTiles> plan(scan.shape);
  const Unit<kTiles> unit = make_unit<kTiles>(scan, pairs, memory);
  Warp<kTiles>(scan, plan, unit).run();
}

// Queries that look into a list, on average, up to which a unit has one tile.
constexpr std::uint32_t kFewSharing = 12;

}  // namespace

bool rabitq_lists_fit(const compute::IvfShape& shape, int capability, std::size_t shared_memory) {
  return capability >= 80 && BlockPlan<kMostTiles>(shape).size + 1024 <= shared_memory;
}

RabitqUnits launch_rabitq_units(const RabitqScan& scan, std::uint32_t first, const IvfPairs& pairs,
                                cudaStream_t stream) {
  const std::uint32_t all = scan.count * (scan.nprobe - first), lists = scan.shape.lists;
  const std::uint32_t tiles = all / lists < kFewSharing ? 1 : kMostTiles;
  const std::uint32_t queries = tiles * kTileQueries;
  launch_ivf_pairs(
      {scan.lists, scan.count, scan.list_stride, first, scan.nprobe, lists, queries, pairs},
      stream);
  return {pairs, tiles, all / queries + std::min(lists, all)};
}

void launch_rabitq_lists(const RabitqScan& scan, const RabitqUnits& units, cudaStream_t stream) {
  for_tiles(units.tiles, [&]<unsigned kTiles>() {
    const std::size_t bytes = BlockPlan<kTiles>(scan.shape).size;
    check(cudaFuncSetAttribute(lists_kernel<kTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          "scanning lists");
    lists_kernel<kTiles><<<units.most, kUnitThreads, bytes, stream>>>(scan, units.pairs);
  });
  check_launch("scanning lists");
}

}  // namespace warplite::gpu

// Scores of RaBitQ codes, with the bits of compute/rabitq.h: nothing is fused.
#include "gpu/ivf/rabitq_code.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/kth_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpLanes;
constexpr unsigned kQueue = 2 * kWarpLanes;
// Groups of rows that a warp has on their way from memory, and the bytes that they may take.
constexpr unsigned kAhead = 4;
constexpr std::uint32_t kAheadBytes = 8192;
// Rows beyond those wanted after which the worst are dropped: that takes as long as to look closely
// at several hundred. Slices see few enough to keep nearly all.
constexpr std::uint32_t kLeastBeyond = 480, kSliceBeyond = 1504;
// Keys that all warps can add before they see that it is time for that.
constexpr std::uint32_t kLateKeys = 2 * kWarps * kWarpLanes;
constexpr std::uint32_t kPackedSpaces = 257;  // whose entries' sum fits 16 bits
// A lane adds an eighth of a row's entries.
constexpr std::uint32_t kMostSpaces = 8 * kPackedSpaces;

// What a warp has in shared memory, in this order: T, v, the queue, groups that come, and records
// that are looked at.
struct WarpPlan {
  RecordPlan record;
  std::uint32_t elements, queue, groups, ahead, records, size;

  constexpr explicit WarpPlan(const compute::IvfShape& shape)
      : record(shape),
        elements(shape.m * 16),
        queue(elements + (shape.m + 7) / 8 * 32),
        groups(queue + kQueue * 8),
        ahead(GroupSlot(shape.m).size * kAhead <= kAheadBytes ? kAhead : 1),
        records(groups + ahead * GroupSlot(shape.m).size),
        size(records + record.bytes) {}
};

// What is kept of a query's rows, or of a slice's.
struct Room {
  std::uint32_t kept, keys;

  constexpr Room(std::uint32_t wanted, bool sliced) : kept(sliced ? kSliceBeyond : kLeastBeyond) {
    kept = wanted + (wanted / 2 > kept ? wanted / 2 : kept);
    // Even, so that what follows the keys lies on 16 bytes.
    keys = (kept + kLateKeys + 1) / 2 * 2;
  }
};

std::size_t shared_bytes(const compute::IvfShape& shape, std::uint32_t wanted, bool sliced,
                         unsigned warps) {
  return std::size_t{Room(wanted, sliced).keys} * sizeof(std::uint64_t) +
         warps * WarpPlan(shape).size;
}

// A row that the signs do not rule out.
struct Survivor {
  std::uint32_t position;
  std::uint32_t sum;  // of entries
};

// The best of a slice. In shared memory, but for the keys' place.
struct Kept {
  KthKey<kThreads> kth;
  std::uint64_t limit;
  std::uint32_t count, next, first;
  std::uint32_t unit;  // that is next
};

// Sums of entries of a group's rows; `place` receives which row this lane has. A lane reads the
// codes of eight rows of every eighth sub-space; then sums change hands until each lane has one
// row's.
__device__ std::uint32_t sum_entries(const std::uint8_t* group, std::uint32_t m,
                                     const std::byte* entries, std::uint32_t& place) {
  const unsigned lane = threadIdx.x % kWarpLanes, quad = lane % 4;
  const auto* words = reinterpret_cast<const std::uint32_t*>(group);
  const auto* tables = reinterpret_cast<const std::uint8_t*>(entries);
  std::uint32_t sums[4] = {};  // rows 4·quad + j, and that + 16 above
  for (std::uint32_t s = lane / 4; s < m; s += 8) {
    const std::uint32_t word = words[s * 4 + quad];
    const std::uint8_t* table = tables + s * 16;
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      const std::uint32_t low = table[word >> (8 * j) & 15u],
                          high = table[word >> (8 * j + 4) & 15u];
      sums[j] += low | high << 16;
    }
  }
  const bool third = (lane & 4) != 0, second = (lane & 8) != 0, first = (lane & 16) != 0;
  place = (third ? 16 : 0) + 4 * quad + (first ? 2 : 0) + (second ? 1 : 0);
  const auto trade = [](std::uint32_t keep, std::uint32_t give, unsigned with) {
    return keep + __shfl_xor_sync(kWholeWarp, give, with);
  };
  if (m > kPackedSpaces) {
    std::uint32_t wide[4];
    for (unsigned j = 0; j < 4; ++j) {
      const std::uint32_t low = sums[j] & 0xffff, high = sums[j] >> 16;
      wide[j] = trade(third ? high : low, third ? low : high, 4);
    }
    const std::uint32_t x = trade(first ? wide[2] : wide[0], first ? wide[0] : wide[2], 16);
    const std::uint32_t z = trade(first ? wide[3] : wide[1], first ? wide[1] : wide[3], 16);
    return trade(second ? z : x, second ? x : z, 8);
  }
  const std::uint32_t x = trade(first ? sums[2] : sums[0], first ? sums[0] : sums[2], 16);
  const std::uint32_t z = trade(first ? sums[3] : sums[1], first ? sums[1] : sums[3], 16);
  const std::uint32_t both = trade(second ? z : x, second ? x : z, 8);
  const std::uint32_t all = both + __shfl_xor_sync(kWholeWarp, both, 4);
  return third ? all >> 16 : all & 0xffff;
}

// Four elements of w, a byte each, as the sixteen entries of their sub-space.
__device__ uint4 entries_of(std::uint32_t elements) {
  std::uint32_t words[4];
  int w[4];
#pragma unroll
  for (unsigned b = 0; b < 4; ++b) w[b] = static_cast<std::int8_t>(elements >> (8 * b));
  const int base = 128 - w[0] - w[1] - w[2] - w[3];
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    words[i] = 0;
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      const unsigned code = i * 4 + j;
      int entry = base;
#pragma unroll
      for (unsigned b = 0; b < 4; ++b) entry += (code >> b & 1) != 0 ? 2 * w[b] : 0;
      words[i] |= static_cast<std::uint32_t>(entry) << (8 * j);
    }
  }
  return {words[0], words[1], words[2], words[3]};
}

// What a warp does of one query in one slice.
class Warp {
 public:
  __device__ Warp(const RabitqScan& scan, Kept& kept, std::uint64_t* keys, std::byte* memory,
                  std::uint32_t query, unsigned warps)
      : scan_(scan),
        kept_(kept),
        keys_(keys),
        memory_(memory),
        plan_(scan.shape),
        group_(scan.shape.m),
        slots_(scan.shape.m),
        query_(query),
        step_(scan.parts * RabitqGroup::kRows),
        done_(threadIdx.x / kWarpLanes >= warps) {}

  // Goes on until there is no room for more, or nothing left (false).
  __device__ bool run() {
    if (done_) return false;
    limit_ = kept_.limit;
    while (next()) {
      if (added_ && is_full()) return true;
      added_ = false;
      __pipeline_wait_prior(plan_.ahead - 1);
      __syncwarp();
      scan_group(memory_ + plan_.groups + slot_ * slots_.size);
      __syncwarp();
      fetch(position_ + (plan_.ahead - 1) * step_, slot_);
      slot_ = slot_ + 1 == plan_.ahead ? 0 : slot_ + 1;
      if (pending_ >= plan_.record.rows) flush();
    }
    done_ = true;
    return false;
  }

 private:
  __device__ bool is_full() const {
    const std::uint32_t count = *static_cast<volatile std::uint32_t*>(&kept_.count);
    return __shfl_sync(kWholeWarp, count, 0) >= Room(scan_.wanted, scan_.slices != 1).kept;
  }

  __device__ bool next() {
    while (position_ >= end_) {
      flush();
      if (++run_ >= end_run_ && !next_list()) return false;
      view_ = &scan_.runs[run_];
      begin_ = view_->begins[list_];
      end_ = view_->ends[list_];
      position_ =
          begin_ == end_ ? end_ : (RabitqGroup::first_of(begin_) + part_) * RabitqGroup::kRows;
      slot_ = 0;
      for (unsigned i = 0; i < plan_.ahead; ++i) fetch(position_ + i * step_, i);
    }
    return true;
  }

  // Asks for a group of rows, if there is one.
  __device__ void fetch(std::uint32_t position, unsigned slot) {
    if (position < end_) {
      slots_.fetch(*view_, position, memory_ + plan_.groups + slot * slots_.size);
    }
    __pipeline_commit();
  }

  // Slices take what is dealt out by turns.
  __device__ std::uint32_t next_unit() {
    std::uint32_t unit = 0;
    if (threadIdx.x % kWarpLanes == 0) unit = atomicAdd(&kept_.unit, scan_.slices);
    return __shfl_sync(kWholeWarp, unit, 0);
  }

  __device__ bool next_list() {
    do {
      const std::uint32_t unit = next_unit();
      part_ = unit % scan_.parts;
      std::uint32_t probe = unit / scan_.parts;
      run_ = 0;
      end_run_ = scan_.run_count;
      if (scan_.by_runs) {
        run_ = probe % scan_.run_count;
        end_run_ = run_ + 1;
        probe /= scan_.run_count;
      }
      if (probe >= scan_.nprobe) return false;
      list_ = scan_.lists == nullptr ? probe
                                     : scan_.lists[std::size_t{query_} * scan_.list_stride + probe];
    } while (list_ == kNoList);
    // An entry's place holds its sub-space's w first.
    tables_ = make_tables<kWarpLanes>(
        scan_.shape, scan_.product, scan_.queries + std::size_t{query_} * scan_.shape.dim,
        scan_.centroids + std::size_t{list_} * scan_.shape.dim,
        [&](std::uint32_t k, std::uint32_t w, std::uint32_t v) {
          if (k >= pair_words(scan_.shape.m)) return;
          reinterpret_cast<std::uint32_t*>(memory_ + plan_.elements)[k] = v;
          for (unsigned b = 0; b < 4; ++b) {
            const std::uint32_t i = element_of(k, b);
            if (i / 4 < scan_.shape.m)
              memory_[i / 4 * 16 + i % 4] = static_cast<std::byte>(w >> (8 * b));
          }
        });
    __syncwarp();
    for (std::uint32_t s = threadIdx.x % kWarpLanes; s < scan_.shape.m; s += kWarpLanes) {
      auto* const entry = reinterpret_cast<uint4*>(memory_) + s;
      *entry = entries_of(entry->x);
    }
    __syncwarp();
    return true;
  }

  __device__ SignedRow row_of(const std::uint8_t* group, std::uint32_t place,
                              std::uint32_t sum) const {
    return {
        group, place,
        signs_product(tables_.unit, static_cast<int>(sum) - 128 * static_cast<int>(scan_.shape.m))};
  }

  __device__ void scan_group(const std::byte* slot) {
    const std::uint32_t rows =
        slots_.live(*view_, slot) &
        RabitqGroup::rows_of(begin_, end_, position_ / RabitqGroup::kRows);
    if (rows != 0) scan_rows(reinterpret_cast<const std::uint8_t*>(slot), rows);
    position_ += step_;
  }

  // `rows`: those that take part.
  __device__ void scan_rows(const std::uint8_t* group, std::uint32_t rows) {
    std::uint32_t place;
    const std::uint32_t sum = sum_entries(group, scan_.shape.m, memory_, place);
    const std::uint32_t low =
        known_key(row_of(group, place, sum).low(scan_.shape, tables_.a, tables_.norm));
    const bool within =
        (rows >> place & 1u) != 0 && low <= static_cast<std::uint32_t>(limit_ >> 32);
    const unsigned votes = __ballot_sync(kWholeWarp, within);
    if (votes != 0) {
      const unsigned lane = threadIdx.x % kWarpLanes;
      if (within) queue()[pending_ + __popc(votes & ((1u << lane) - 1))] = {position_ + place, sum};
      pending_ += __popc(votes);
      __syncwarp();
    }
  }

  __device__ Survivor* queue() const { return reinterpret_cast<Survivor*>(memory_ + plan_.queue); }

  // Looks closely at those that wait.
  __device__ void flush() {
    while (pending_ != 0) look_at(min(pending_, plan_.record.rows));
  }

  // At the last `count` of the queue.
  __device__ void look_at(std::uint32_t count) {
    const unsigned lane = threadIdx.x % kWarpLanes;
    const Survivor row = queue()[pending_ - count + min(lane, count - 1)];
    std::byte* const records = memory_ + plan_.records;
    ask_records(plan_.record, view_->records, count, row.position, records);
    const std::uint32_t ordinal = ordinal_of(*view_, row.position);
    await_records();
    std::uint64_t key = kNoKey;
    if (lane < count) {
      key = make_key(score_of(row, records + lane * plan_.record.stride), ordinal);
    }
    pending_ -= count;
    __syncwarp();
    const bool within = key != kNoKey && key <= limit_;
    const unsigned votes = __ballot_sync(kWholeWarp, within);
    if (votes == 0) return;
    added_ = true;
    std::uint32_t first = 0;
    if (lane == 0) first = atomicAdd(&kept_.count, static_cast<std::uint32_t>(__popc(votes)));
    first = __shfl_sync(kWholeWarp, first, 0);
    if (within) keys_[first + __popc(votes & ((1u << lane) - 1))] = key;
  }

  __device__ std::uint32_t score_of(const Survivor& row, const std::byte* at) const {
    const auto* record = reinterpret_cast<const std::uint8_t*>(at);
    const SignedRow signs =
        row_of(view_->codes + std::size_t{row.position / RabitqGroup::kRows} * group_.size,
               row.position % RabitqGroup::kRows, row.sum);
    const CodeSums sums =
        code_sums<false>(scan_, signs.group, signs.place, record, nullptr,
                         reinterpret_cast<const std::uint32_t*>(memory_ + plan_.elements));
    return score_of_codes(scan_, tables_, signs, record, sums.codes);
  }

  const RabitqScan& scan_;
  Kept& kept_;
  std::uint64_t* const keys_;
  std::byte* const memory_;
  const WarpPlan plan_;
  const RabitqGroup group_;
  const GroupSlot slots_;
  const std::uint32_t query_;
  const std::uint32_t step_;  // from one of its groups to the next
  std::uint32_t run_ = 0, end_run_ = 0, list_ = 0, part_ = 0;
  std::uint32_t begin_ = 0, end_ = 0;  // of the list in the run
  std::uint32_t position_ = 0;
  unsigned slot_ = 0;  // where its group is
  std::uint32_t pending_ = 0;
  std::uint64_t limit_ = kNoKey;
  const IvfRunView* view_ = nullptr;
  RabitqTables tables_{};
  bool done_;
  bool added_ = false;  // keys, since it asked whether there is room
};

// Keeps the `wanted` best of the keys. Called by all threads.
__device__ void keep_best(Kept& kept, std::uint64_t* keys, std::uint32_t wanted) {
  const std::uint32_t count = kept.count;
  const std::uint64_t limit =
      kept.kth.find([keys](std::uint32_t i) { return keys[i]; }, count, wanted);
  if (threadIdx.x == 0) kept.next = 0;
  for (std::uint32_t base = 0; base < count; base += kThreads) {
    const std::uint32_t i = base + threadIdx.x;
    const std::uint64_t key = i < count ? keys[i] : kNoKey;
    __syncthreads();
    // A place that was read already.
    if (i < count && key <= limit) keys[atomicAdd(&kept.next, 1u)] = key;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    kept.count = kept.next;
    kept.limit = min(kept.limit, limit);
  }
}

// Searches a slice of a query. Called by all threads.
__device__ void search_slice(const RabitqScan& scan, Kept& kept, std::byte* memory,
                             std::uint32_t query, std::uint32_t slice, unsigned warps) {
  auto* const keys = reinterpret_cast<std::uint64_t*>(memory);
  auto* const limits = reinterpret_cast<unsigned long long*>(scan.best.limits);
  if (threadIdx.x == 0) {
    kept.count = 0;
    kept.limit = limits[query];
    kept.unit = slice;
  }
  __syncthreads();
  std::byte* const tables =
      memory + Room(scan.wanted, scan.slices != 1).keys * sizeof(std::uint64_t);
  Warp warp(scan, kept, keys, tables + threadIdx.x / kWarpLanes * WarpPlan(scan.shape).size, query,
            warps);
  for (bool more = true; more;) {
    more = __syncthreads_or(warp.run());
    if (kept.count > scan.wanted || (!more && kept.count == scan.wanted)) {
      keep_best(kept, keys, scan.wanted);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      kept.limit =
          min(kept.limit, static_cast<std::uint64_t>(atomicMin(&limits[query], kept.limit)));
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) kept.first = atomicAdd(&scan.best.counts[query], kept.count);
  __syncthreads();
  std::uint64_t* const out = scan.best.keys + std::size_t{query} * scan.best.stride + kept.first;
  for (std::uint32_t i = threadIdx.x; i < kept.count; i += kThreads) out[i] = keys[i];
}

__global__ void __launch_bounds__(kThreads, 4)
    rabitq_kernel(const __grid_constant__ RabitqScan scan, unsigned warps) {
  extern __shared__ __align__(16) std::byte memory[];
  __shared__ Kept kept;
  const std::uint32_t queries = scan.lost == nullptr ? scan.count : scan.lost[0];
  for (std::uint32_t i = blockIdx.x; i < queries * scan.slices; i += gridDim.x) {
    if (__syncthreads_or(is_stopped(scan))) return;
    const std::uint32_t query = i / scan.slices;
    search_slice(scan, kept, memory, scan.lost == nullptr ? query : scan.lost[1 + query],
                 i % scan.slices, warps);
    __syncthreads();
  }
}

// Lost queries are few, and how many is not known when they are searched.
constexpr std::uint32_t kLostBlocks = 1024;
// That a block has besides.
constexpr std::size_t kOwnShared = 2048;

unsigned warps_of(const compute::IvfShape& shape, std::uint32_t wanted, bool sliced,
                  std::size_t shared_memory) {
  for (unsigned warps = kWarps; warps != 0; warps /= 2) {
    if (shared_bytes(shape, wanted, sliced, warps) + kOwnShared <= shared_memory) return warps;
  }
  return 0;
}

}  // namespace

bool rabitq_fits(const compute::IvfShape& shape, std::uint32_t wanted, std::size_t shared_memory) {
  return shape.m <= kMostSpaces && wanted <= kMostWanted &&
         warps_of(shape, wanted, true, shared_memory) != 0;
}

void launch_rabitq(const RabitqScan& scan, std::size_t shared_memory, cudaStream_t stream) {
  const bool sliced = scan.slices != 1;
  const unsigned warps = warps_of(scan.shape, scan.wanted, sliced, shared_memory);
  const std::size_t bytes = shared_bytes(scan.shape, scan.wanted, sliced, warps);
  check(cudaFuncSetAttribute(rabitq_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "scanning lists");
  const std::uint32_t blocks = scan.count * scan.slices;
  rabitq_kernel<<<scan.lost == nullptr ? blocks : min(blocks, kLostBlocks), kThreads, bytes,
                  stream>>>(scan, warps);
  check_launch("scanning lists");
}

}  // namespace warplite::gpu

// Counting a strip for a query: columns of codes. Two codes are in a word, and instructions work on
// both.
#include "gpu/match/codes.h"
#include "gpu/match/strip.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr std::uint32_t kItems = 256;  // that are prepared at a time

// An item of which some row may be.
struct ReadyItem {
  const std::uint16_t* codes;
  std::uint32_t minus_low, width, minus_width;  // in both halves; width: of the range, less 1
  std::uint32_t weight;

  // Returns 1 in each half whose code is outside the range.
  __device__ std::uint32_t misses(std::uint32_t pair) const {
    const std::uint32_t beyond = __viaddmax_u16x2(pair, minus_low, width);
    return __viaddmin_u16x2(beyond, minus_width, 0x00010001u);
  }
};

// Items in shared memory.
struct CodeItems {
  ReadyItem items[kItems];
  std::uint32_t count, total;  // of items; what a row may count

  // Called by all threads; what a call before left may be overwritten.
  __device__ void prepare(const CodeSearchView& search, std::uint32_t tile, std::uint32_t first,
                          std::uint32_t end) {
    __syncthreads();
    if (threadIdx.x == 0) count = total = 0;
    __syncthreads();
    const std::uint32_t i = first + threadIdx.x;
    if (threadIdx.x < kItems && i < end) {
      const compute::CodeItem item = search.items[i];
      const compute::CodeRange range = search.ranges[std::size_t{tile} * search.item_count + i];
      const std::uint16_t* const codes =
          search.columns[std::size_t{tile} * search.column_count + item.column];
      if (range.low <= range.high && codes != nullptr && item.weight != 0) {
        const std::uint32_t low = range.low, width = range.high - low;
        const auto both = [](std::uint32_t half) { return (half & 0xffffu) * 0x10001u; };
        items[atomicAdd(&count, 1u)] = {codes, both(0u - low), both(width), both(0u - width),
                                        item.weight};
        atomicAdd(&total, item.weight);
      }
    }
    __syncthreads();
  }
};

// Misses sum what the rows of a vector of counters miss; they hold as many pairs of rows as a
// vector does.
template <unsigned kBits>
struct Misses {
  static constexpr unsigned kPairs = kBits == 8 ? 8 : kBits == 16 ? 4 : 2;
  static constexpr unsigned kSums = kBits == 32 ? 2 * kPairs : kPairs;
  std::uint32_t sums[kSums] = {};

  __device__ void add(const ReadyItem& item, const std::uint16_t* codes) {
    std::uint32_t pairs[kPairs];
    if constexpr (kPairs == 2) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(codes));
      pairs[0] = two.x, pairs[1] = two.y;
    } else {
#pragma unroll
      for (unsigned i = 0; i < kPairs; i += 4) {
        const uint4 four = __ldg(reinterpret_cast<const uint4*>(codes) + i / 4);
        pairs[i] = four.x, pairs[i + 1] = four.y, pairs[i + 2] = four.z, pairs[i + 3] = four.w;
      }
    }
#pragma unroll
    for (unsigned i = 0; i < kPairs; ++i) {
      const std::uint32_t missed = item.misses(pairs[i]);
      if constexpr (kBits == 32) {
        sums[2 * i] += (missed & 0xffffu) * item.weight;
        sums[2 * i + 1] += (missed >> 16) * item.weight;
      } else {
        sums[i] += missed * item.weight;
      }
    }
  }

  // Counters of rows that count `total` less what they miss.
  __device__ uint4 counters(std::uint32_t total) const {
    if constexpr (kBits == 32) {
      return {total - sums[0], total - sums[1], total - sums[2], total - sums[3]};
    } else {
      const std::uint32_t all = total * 0x10001u;
      if constexpr (kBits == 16) {
        return {all - sums[0], all - sums[1], all - sums[2], all - sums[3]};
      } else {
        const auto word = [&](unsigned i) {
          return __byte_perm(all - sums[i], all - sums[i + 1], 0x6420);
        };
        return {word(0), word(2), word(4), word(6)};
      }
    }
  }
};

// Returns those counters of a word that belong to the first `rows` rows.
template <unsigned kBits>
__device__ std::uint32_t first_rows(std::uint32_t word, std::int32_t rows) {
  constexpr std::int32_t kPerWord = 32 / kBits;
  if (rows >= kPerWord) return word;
  return rows <= 0 ? 0 : word & ((1u << (rows * kBits % 32)) - 1);
}

template <unsigned kBits, typename Counters>
__device__ void add_codes(const Counters& counters, const CodeItems& items) {
  for (unsigned turn = 0; turn < counters.turns(); ++turn) {
    const std::uint32_t row = counters.row_of(turn);
    if (row >= counters.rows()) return;
    Misses<kBits> misses;
#pragma unroll 2
    for (std::uint32_t i = 0; i < items.count; ++i) {
      const ReadyItem& item = items.items[i];
      misses.add(item, item.codes + counters.first() + row);
    }
    const uint4 more = misses.counters(items.total);
    const auto left = static_cast<std::int32_t>(counters.rows() - row);
    constexpr std::int32_t kPerWord = 32 / kBits;
    uint4& v = counters.vector(turn);
    v.x += first_rows<kBits>(more.x, left);
    v.y += first_rows<kBits>(more.y, left - kPerWord);
    v.z += first_rows<kBits>(more.z, left - 2 * kPerWord);
    v.w += first_rows<kBits>(more.w, left - 3 * kPerWord);
  }
}

// Fills the counters for StripSearch::run(), whose `count` it is. False: no row can count as much
// as the floor, or the search was cancelled.
template <unsigned kBits, typename Counters>
__device__ bool count_codes(const CodeSearchView& search, std::uint32_t tile, std::uint32_t query,
                            const Counters& counters, CodeItems& items, std::uint64_t floor) {
  counters.clear();
  const std::uint32_t begin = search.rows.begins[query], end = search.rows.begins[query + 1];
  for (std::uint32_t at = begin; at < end; at += kItems) {
    items.prepare(search, tile, at, end);
    const bool stopped = threadIdx.x == 0 && at != begin && __ldcg(search.rows.stop) != 0;
    const bool useless =
        floor > Counters::Word::kMost || (end - begin <= kItems && items.total < floor);
    if (__syncthreads_or((at == begin && useless) || stopped ? 1 : 0) != 0) return false;
    add_codes<kBits>(counters, items);
  }
  return begin != end;
}

template <unsigned kBits, bool kWhole>
__global__ void __launch_bounds__(StripThreads<kBits>::kCount, StripThreads<kBits>::kBlocks)
    count_codes_kernel(const __grid_constant__ CodeSearchView search) {
  using Search = StripSearch<kBits, kWhole, CodeItems>;
  extern __shared__ uint4 counters[];
  __shared__ typename Search::Shared shared;
  const MatchSearchView& rows = search.rows;
  const std::uint32_t strip = blockIdx.x / rows.queries, query = blockIdx.x % rows.queries;
  const std::uint32_t strips = compute::kTileRows / rows.strip_rows;
  const std::uint32_t number = strip / strips;
  const MatchTileView tile = rows.tiles[number];
  const std::uint32_t first = strip % strips * rows.strip_rows;
  if (first >= tile.rows) return;
  Search(rows, shared, counters, tile, number, first)
      .run(query, [&](const auto& counted, CodeItems& items, std::uint64_t floor) {
        return count_codes<kBits>(search, number, query, counted, items, floor);
      });
}

template <unsigned kBits, bool kWhole>
void launch(const CodeSearchView& search, cudaStream_t stream) {
  auto* const kernel = count_codes_kernel<kBits, kWhole>;
  const MatchSearchView& rows = search.rows;
  const std::size_t bytes = std::size_t{rows.strip_rows} * kBits / 8;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "counting codes");
  const unsigned blocks = rows.tile_count * (compute::kTileRows / rows.strip_rows) * rows.queries;
  kernel<<<blocks, StripThreads<kBits>::kCount, bytes, stream>>>(search);
  check_launch("counting codes");
}

template <unsigned kBits>
constexpr std::size_t other_memory() {
  return sizeof(StripShared<StripThreads<kBits>::kCount, CodeItems>);
}

}  // namespace

std::uint32_t code_strip_rows(unsigned bits, std::size_t shared_memory) {
  const std::size_t other = bits == 8 ? other_memory<8>() : other_memory<16>();
  std::uint32_t rows = compute::kTileRows;
  while (std::size_t{rows} * bits / 8 + other > shared_memory) rows /= 2;
  return rows;
}

void launch_code_count(const CodeSearchView& search, cudaStream_t stream) {
  const bool whole = search.rows.strip_rows == compute::kTileRows;
  if (search.rows.bits == 8) {
    whole ? launch<8, true>(search, stream) : launch<8, false>(search, stream);
  } else if (search.rows.bits == 16) {
    whole ? launch<16, true>(search, stream) : launch<16, false>(search, stream);
  } else {
    launch<32, false>(search, stream);
  }
}

}  // namespace warplite::gpu

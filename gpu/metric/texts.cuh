// The kernels for metric indexes of texts have this in common: queries in shared memory, texts of a
// warp's lanes, their distances, and hits that wait for room in the list.
#pragma once

#include "gpu/edit/columns.cuh"
#include "gpu/metric/texts.h"
#include "gpu/metric/totals.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {

inline constexpr unsigned kTextThreads = 256;
inline constexpr unsigned kTextWarps = kTextThreads / 32;
inline constexpr unsigned kTextAtOnce = 4;  // pairs of a lane that may be pushed at once

// Queries of a thread block.
constexpr unsigned text_queries(unsigned words) { return 32 / words; }

// TextOccurrences say where symbols occur in the queries. They lie in dynamic shared memory.
template <unsigned kWords>
struct TextOccurrences {
  std::uint32_t* words;  // [queries][kWords][slots]
  std::uint32_t slots;

  __device__ void make(const EditSearchView& search, const EditTileView& tile,
                       std::uint32_t first) const {
    constexpr unsigned kQueries = text_queries(kWords);
    for (unsigned i = threadIdx.x; i < kQueries * kWords * slots; i += kTextThreads) words[i] = 0;
    __syncthreads();
    const std::uint32_t end = min(first + kQueries, search.queries);
    const std::uint32_t begin_point = search.begins[first], end_point = search.begins[end];
    for (std::uint32_t i = begin_point + threadIdx.x; i < end_point; i += kTextThreads) {
      std::uint32_t query = first;
      while (search.begins[query + 1] <= i) ++query;
      const std::uint32_t symbol = symbol_of(tile, search.points[i]);
      if (symbol >= slots) continue;  // no text of the tile has it
      // The query stands at the upper end.
      const std::uint32_t bit = 32 * kWords - (search.begins[query + 1] - i);
      atomicOr(&words[((query - first) * kWords + bit / 32) * slots + symbol], 1u << bit % 32);
    }
    __syncthreads();
  }

 private:
  __device__ static std::uint32_t symbol_of(const EditTileView& tile, std::uint32_t point) {
    std::uint32_t low = 0, high = tile.alphabet_size;
    while (low < high) {
      const std::uint32_t middle = (low + high) / 2;
      if (tile.alphabet[middle] < point) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < tile.alphabet_size && tile.alphabet[low] == point ? low : ~0u;
  }
};

// A lane's text of a group.
struct LaneText {
  const std::uint8_t* symbols;
  std::uint32_t length, least;  // of the lane's, and of the shortest of the warp
  bool some;

  __device__ LaneText(const MetricGroupsView& texts, std::uint32_t group, bool wanted)
      : LaneText(texts, group, threadIdx.x % 32, wanted) {}
  // Groups and places differ from lane to lane.
  __device__ LaneText(const MetricGroupsView& texts, std::uint32_t group, unsigned place,
                      bool wanted)
      : symbols(texts.symbols + std::size_t{texts.begins[group]} * compute::kEditGroup + place),
        length(texts.lengths[group * compute::kEditGroup + place]) {
    some = length != compute::MetricTexts::kNoText && wanted;
    least = some ? length : ~0u;
    for (unsigned lanes = 16; lanes != 0; lanes /= 2) {
      least = min(least, __shfl_xor_sync(~0u, least, static_cast<int>(lanes)));
    }
  }
};

// Queries go by their numbers in the thread block.
struct TextShared {
  std::uint32_t thresholds[32], lengths[32];
  MetricTotals totals;
  // Pairs of a member and a query (in the lower 5 bits) that are to be compared, and hits; of each
  // less than 32 wait when more are pushed.
  std::uint32_t pairs[kTextWarps][32 * (kTextAtOnce + 1)];
  std::uint64_t hits[kTextWarps][64];
  unsigned pair_counts[kTextWarps], hit_counts[kTextWarps];
};

template <unsigned kWords>
class TextWarp {
 public:
  static constexpr unsigned kQueries = text_queries(kWords);

  __device__ TextWarp(const MetricTextSearch& all, TextShared& shared, std::uint32_t* words)
      : all_(all), search_(all.search), view_(all.metrics[blockIdx.y]),
        tile_(all.search.tiles[blockIdx.y]), first_(blockIdx.x * kQueries),
        warp_(threadIdx.x / 32), lane_(threadIdx.x % 32), shared_(shared),
        occurrences_{words, all.symbols} {
    if (threadIdx.x < 32) {
      const std::uint32_t query = first_ + threadIdx.x;
      const bool some = threadIdx.x < count_of_queries();
      shared.thresholds[threadIdx.x] = some ? search_.thresholds[query] : 0;
      shared.lengths[threadIdx.x] = some ? search_.begins[query + 1] - search_.begins[query] : 0;
    }
    if (threadIdx.x == 0) shared.totals = {0, 0};
    if (lane_ == 0) shared.pair_counts[warp_] = shared.hit_counts[warp_] = 0;
    occurrences_.make(search_, tile_, first_);
  }

  __device__ unsigned count_of_queries() const { return min(search_.queries - first_, kQueries); }
  __device__ bool stopped() const { return __any_sync(~0u, __ldcg(search_.stop) != 0); }

  // Adds what is left, and the totals. Called by the whole thread block.
  __device__ void finish() {
    compare_pairs(true);
    flush();
    add_totals({distances_, clusters_}, shared_.totals, all_.totals);
  }

  // Distances of the lane's text from kCount queries.
  template <unsigned kCount>
  __device__ void distances_of(const LaneText& text, const unsigned (&queries)[kCount],
                               std::uint32_t (&out)[kCount]) const {
    EditColumn<kWords> columns[kCount];
    const std::uint32_t* words[kCount];
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
      columns[i].begin(shared_.lengths[queries[i]]);
      words[i] = occurrences_.words + queries[i] * kWords * occurrences_.slots;
    }
    const auto advance = [&](std::uint32_t symbol) {
#pragma unroll
      for (unsigned i = 0; i < kCount; ++i) {
        std::uint32_t equal[kWords];
#pragma unroll
        for (unsigned w = 0; w < kWords; ++w) {
          equal[w] = words[i][w * occurrences_.slots + symbol];
        }
        columns[i].advance(equal);
      }
    };
    // First all texts go on together, up to the end of the shortest; then only those that are
    // longer.
    if (text.some) {
      std::uint32_t at = 0;
#pragma unroll 4
      for (; at < text.least; ++at) advance(__ldg(text.symbols + at * compute::kEditGroup));
      for (; at < text.length; ++at) advance(__ldg(text.symbols + at * compute::kEditGroup));
    }
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) out[i] = columns[i].distance(text.length);
  }

  // A pair of each lane for which `take` holds.
  __device__ void push_pair(bool take, std::uint32_t member, unsigned query) {
    const unsigned lanes = __ballot_sync(~0u, take);
    if (lanes == 0) return;
    const unsigned before = shared_.pair_counts[warp_];
    const unsigned below = lanes & ((1u << lane_) - 1);
    if (take) shared_.pairs[warp_][before + __popc(below)] = member << 5 | query;
    __syncwarp();
    if (lane_ == 0) shared_.pair_counts[warp_] = before + static_cast<unsigned>(__popc(lanes));
    __syncwarp();
  }

  // Compares pairs until less than 32 are left, or none: a lane a pair.
  __device__ void compare_pairs(bool all) {
    unsigned left = shared_.pair_counts[warp_];
    if (left < 32 && !(all && left != 0)) return;
    while (left >= 32 || (all && left != 0)) {
      const unsigned count = min(left, 32u);
      left -= count;
      const bool some = lane_ < count;
      const std::uint32_t pair = shared_.pairs[warp_][left + (some ? lane_ : 0)];
      const std::uint32_t member = pair >> 5;
      const unsigned queries[1] = {pair & 31};
      const LaneText text(view_.members, member / 32, member % 32, some);
      std::uint32_t found[1];
      distances_of<1>(text, queries, found);
      distances_ += count;
      push_hit(some, member, queries[0], found[0]);
    }
    __syncwarp();
    if (lane_ == 0) shared_.pair_counts[warp_] = left;
    __syncwarp();
  }

  const MetricTextSearch& all_;
  const EditSearchView& search_;
  const MetricTextsView view_;
  const EditTileView tile_;
  const std::uint32_t first_;
  const unsigned warp_, lane_;
  unsigned long long distances_ = 0, clusters_ = 0;  // of the warp

 private:
  __device__ void push_hit(bool some, std::uint32_t member, unsigned query,
                           std::uint32_t distance) {
    bool hit = some && distance <= shared_.thresholds[query] && distance >= search_.least;
    std::uint32_t row = 0;
    if (hit) {
      row = view_.rows[member];
      if (tile_.live != nullptr) hit = (tile_.live[row / 64] >> (row % 64) & 1) != 0;
    }
    const unsigned lanes = __ballot_sync(~0u, hit);
    if (lanes == 0) return;
    const unsigned before = shared_.hit_counts[warp_];
    if (hit) {
      const std::uint64_t upper = static_cast<std::uint64_t>(blockIdx.y << 16 | row) << 32;
      shared_.hits[warp_][before + __popc(lanes & ((1u << lane_) - 1))] =
          upper | static_cast<std::uint64_t>(first_ + query) << 16 | distance;
    }
    const unsigned after = before + static_cast<unsigned>(__popc(lanes));
    __syncwarp();
    if (lane_ == 0) shared_.hit_counts[warp_] = after;
    __syncwarp();
    if (after >= 32) flush();
  }

  __device__ void flush() {
    const unsigned count = shared_.hit_counts[warp_];
    unsigned long long at = 0;
    if (lane_ == 0 && count != 0) {
      at = atomicAdd(search_.found, static_cast<unsigned long long>(count));
    }
    at = __shfl_sync(~0u, at, 0);
    for (unsigned i = lane_; i < count; i += 32) {
      if (at + i < search_.room) search_.hits[at + i] = shared_.hits[warp_][i];
    }
    __syncwarp();
    if (lane_ == 0) shared_.hit_counts[warp_] = 0;
    __syncwarp();
  }

  TextShared& shared_;
  const TextOccurrences<kWords> occurrences_;
};

// Thread blocks for all queries and tiles, these in `parts`.
template <unsigned kWords, typename Kernel>
void launch_text_kernel(Kernel* kernel, const MetricTextSearch& search, unsigned parts,
                        cudaStream_t stream) {
  const std::size_t bytes =
      std::size_t{text_queries(kWords)} * kWords * search.symbols * sizeof(std::uint32_t);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "comparing texts through an index");
  const unsigned batches =
      (search.search.queries + text_queries(kWords) - 1) / text_queries(kWords);
  kernel<<<dim3(batches, search.tiles, parts), kTextThreads, bytes, stream>>>(search);
  check_launch("comparing texts through an index");
}

// Calls launch.operator()<words of a query>().
template <typename Launch>
void with_words(std::uint32_t words, const Launch& launch) {
  switch (words) {
    case 1: return launch.template operator()<1>();
    case 2: return launch.template operator()<2>();
    default: return launch.template operator()<4>();
  }
}

}  // namespace warplite::gpu

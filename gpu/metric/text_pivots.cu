// All texts within a distance, through tables of distances to pivots.
#include "gpu/metric/texts.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kParts = 8;         // thread blocks that share a tile
constexpr unsigned kMostPivots = 128;  // that are looked at
constexpr unsigned kAtOnce = kTextAtOnce;  // queries that a table is compared with

constexpr unsigned pivots_at_once(unsigned words) { return 8 / words; }

struct PivotsShared {
  TextShared common;
  // Distances of the queries to each pivot, a byte each.
  std::uint8_t distances[kMostPivots][32];
};

template <unsigned kWords>
class PivotTexts : public TextWarp<kWords> {
 public:
  using Base = TextWarp<kWords>;
  using Base::kQueries;

  __device__ PivotTexts(const MetricTextSearch& all, PivotsShared& shared, std::uint32_t* words)
      : Base(all, shared.common, words), shared_(shared), common_(shared.common),
        pivots_(min(this->view_.count, kMostPivots)) {}

  __device__ void run() {
    compare_pivots();
    __syncthreads();
    const std::uint32_t groups = this->view_.groups;
    for (std::uint32_t group = blockIdx.z * kTextWarps + this->warp_; group < groups;
         group += gridDim.z * kTextWarps) {
      if (this->stopped()) break;
      search_group(group);
    }
    this->finish();
  }

 private:
  // A lane a pivot.
  __device__ void compare_pivots() {
    constexpr unsigned kTogether = pivots_at_once(kWords), kBatches = kQueries / kTogether;
    const unsigned items = (pivots_ + 31) / 32 * kBatches;
    for (unsigned item = this->warp_; item < items; item += kTextWarps) {
      const unsigned group = item / kBatches, first = item % kBatches * kTogether;
      const LaneText text(this->view_.points, group, group * 32 + this->lane_ < pivots_);
      unsigned queries[kTogether];
#pragma unroll
      for (unsigned i = 0; i < kTogether; ++i) queries[i] = first + i;
      std::uint32_t found[kTogether];
      this->template distances_of<kTogether>(text, queries, found);
      const unsigned lanes = __ballot_sync(~0u, text.some);
      const unsigned count = this->count_of_queries();
      this->distances_ += static_cast<unsigned>(__popc(lanes)) *
                          (count > first ? min(count - first, kTogether) : 0);
      if (!text.some) continue;
#pragma unroll
      for (unsigned i = 0; i < kTogether; ++i) {
        shared_.distances[group * 32 + this->lane_][first + i] =
            static_cast<std::uint8_t>(min(found[i], compute::TextPivots::kFarthest));
      }
    }
  }

  __device__ void search_group(std::uint32_t group) {
    const std::uint32_t member = group * 32 + this->lane_;
    const std::uint32_t length = this->view_.members.lengths[member];
    const bool some = length != compute::MetricTexts::kNoText;
    const unsigned count = this->count_of_queries();
    for (unsigned first = 0; first < count; first += kAtOnce) {
      std::uint32_t left = 0, thresholds = 0;
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const std::uint32_t most = common_.thresholds[first + i];
        const std::uint32_t own = common_.lengths[first + i];
        const bool near = some && first + i < count &&
                          (own <= length ? length - own : own - length) <= most;
        left |= (near ? 0xffu : 0u) << (8 * i);
        thresholds |= min(most, 255u) << (8 * i);
      }
      const std::uint8_t* table = this->view_.table + member;
      for (unsigned p = 0; p < pivots_; ++p, table += this->view_.groups * 32) {
        if (!__any_sync(~0u, left != 0)) break;
        const std::uint32_t distances =
            *reinterpret_cast<const std::uint32_t*>(&shared_.distances[p][first]);
        const std::uint32_t own = __ldg(table) * 0x01010101u;
        left &= __vcmpleu4(__vabsdiffu4(own, distances), thresholds);
      }
      if (!__any_sync(~0u, left != 0)) continue;
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const bool take = (left >> (8 * i) & 1) != 0;
        this->clusters_ += static_cast<unsigned>(__popc(__ballot_sync(~0u, take)));
        this->push_pair(take, member, first + i);
      }
      this->compare_pairs(false);
    }
  }

  PivotsShared& shared_;
  TextShared& common_;
  const std::uint32_t pivots_;
};

template <unsigned kWords>
__global__ void __launch_bounds__(kTextThreads)
    pivots_kernel(const __grid_constant__ MetricTextSearch search) {
  extern __shared__ std::uint32_t memory[];
  __shared__ PivotsShared shared;
  if (!search.metrics[blockIdx.y].pivots) return;
  PivotTexts<kWords>(search, shared, memory).run();
}

}  // namespace

void launch_metric_text_pivots(const MetricTextSearch& search, std::uint32_t words,
                               cudaStream_t stream) {
  with_words(words, [&]<unsigned kWords>() {
    launch_text_kernel<kWords>(pivots_kernel<kWords>, search, kParts, stream);
  });
}

}  // namespace warplite::gpu

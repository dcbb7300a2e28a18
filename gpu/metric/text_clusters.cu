// All texts within a distance, through lists of clusters.
#include "gpu/metric/texts.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kParts = 4;  // thread blocks that share a tile

// Queries that a warp compares with centres at once.
constexpr unsigned centres_at_once(unsigned words) { return 8 / words; }

struct ClustersShared {
  TextShared common;
  std::uint16_t distances[kTextWarps][32][32];  // [query][centre], of the centres at hand
  std::uint32_t stops[32];                      // clusters of use to each query
};

template <unsigned kWords>
class ClusterTexts : public TextWarp<kWords> {
 public:
  using Base = TextWarp<kWords>;
  using Base::kQueries;

  __device__ ClusterTexts(const MetricTextSearch& all, ClustersShared& shared,
                          std::uint32_t* words)
      : Base(all, shared.common, words), shared_(shared), common_(shared.common) {
    if (threadIdx.x < 32) {
      shared.stops[threadIdx.x] = threadIdx.x < this->count_of_queries() ? this->view_.count : 0;
    }
    __syncthreads();
  }

  __device__ void run() {
    const std::uint32_t groups = (view().count + 31) / 32;
    for (std::uint32_t group = blockIdx.z * kTextWarps + this->warp_; group < groups;
         group += gridDim.z * kTextWarps) {
      const std::uint32_t wanted = __ballot_sync(~0u, stop_of(this->lane_) > group * 32);
      if (wanted == 0 || this->stopped()) break;
      visit(group, compare_centres(group, wanted));
    }
    this->finish();
  }

 private:
  __device__ const MetricTextsView& view() const { return this->view_; }
  __device__ std::uint32_t stop_of(unsigned query) const {
    return *static_cast<volatile const std::uint32_t*>(&shared_.stops[query]);
  }

  // A bit for each query that visits the lane's cluster.
  __device__ std::uint32_t compare_centres(std::uint32_t group, std::uint32_t wanted) {
    constexpr unsigned kAtOnce = centres_at_once(kWords);
    __syncwarp();  // distances of the centres before have been read
    const LaneText text(view().points, group, true);
    const std::uint32_t cluster = group * 32 + this->lane_;
    const std::uint32_t cover = text.some ? view().cover[cluster] : 0;
    const std::uint32_t inner = text.some ? view().inner[cluster] : 0;
    const auto texts = static_cast<unsigned>(__popc(__ballot_sync(~0u, text.some)));
    std::uint32_t visits = 0;
    for (unsigned first = 0; first < kQueries; first += kAtOnce) {
      const std::uint32_t some = wanted >> first & ((1u << kAtOnce) - 1);
      if (some == 0) continue;
      unsigned queries[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) queries[i] = first + i;
      std::uint32_t found[kAtOnce];
      this->template distances_of<kAtOnce>(text, queries, found);
      this->distances_ += static_cast<unsigned>(__popc(some)) * texts;
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const std::uint32_t threshold = common_.thresholds[first + i];
        shared_.distances[this->warp_][first + i][this->lane_] =
            static_cast<std::uint16_t>(found[i]);
        if (!text.some) continue;
        if (found[i] <= cover + threshold) visits |= 1u << (first + i);
        if (found[i] + threshold < inner) atomicMin(&shared_.stops[first + i], cluster + 1);
      }
    }
    __syncwarp();
    return visits & wanted;
  }

  // `visits`: of each lane's cluster.
  __device__ void visit(std::uint32_t group, std::uint32_t visits) {
    unsigned lanes = __ballot_sync(~0u, visits != 0);
    for (; lanes != 0; lanes &= lanes - 1) {
      const auto place = static_cast<unsigned>(__ffs(static_cast<int>(lanes)) - 1);
      const std::uint32_t cluster = group * 32 + place;
      const std::uint32_t own = __shfl_sync(~0u, visits, static_cast<int>(place)) &
                                __ballot_sync(~0u, stop_of(this->lane_) > cluster);
      this->clusters_ += static_cast<unsigned>(__popc(own));
      const std::uint32_t end = view().begins[cluster + 1];
      for (std::uint32_t at = view().begins[cluster]; at < end; ++at) {
        search_members(at, place, own);
      }
    }
  }

  // Pairs of members and queries that neither rings nor lengths keep apart.
  __device__ void search_members(std::uint32_t group, unsigned place, std::uint32_t visits) {
    const std::uint32_t member = group * 32 + this->lane_;
    const std::uint32_t length = view().members.lengths[member];
    const std::uint32_t ring = view().rings[member];
    const bool some = length != compute::MetricTexts::kNoText;
    while (visits != 0) {
      for (unsigned i = 0; i < kTextAtOnce && visits != 0; ++i) {
        const auto query = static_cast<unsigned>(__ffs(static_cast<int>(visits)) - 1);
        visits &= visits - 1;
        const std::uint32_t threshold = common_.thresholds[query];
        const std::uint32_t distance = shared_.distances[this->warp_][query][place];
        const bool near = some && near_by(ring, distance, threshold) &&
                          near_by(length, common_.lengths[query], threshold);
        this->push_pair(near, member, query);
      }
      this->compare_pairs(false);
    }
  }

  static __device__ bool near_by(std::uint32_t a, std::uint32_t b, std::uint32_t threshold) {
    return (a <= b ? b - a : a - b) <= threshold;
  }

  ClustersShared& shared_;
  TextShared& common_;
};

template <unsigned kWords>
__global__ void __launch_bounds__(kTextThreads)
    clusters_kernel(const __grid_constant__ MetricTextSearch search) {
  extern __shared__ std::uint32_t memory[];
  __shared__ ClustersShared shared;
  if (search.metrics[blockIdx.y].pivots) return;
  ClusterTexts<kWords>(search, shared, memory).run();
}

}  // namespace

void launch_metric_text_clusters(const MetricTextSearch& search, std::uint32_t words,
                                 cudaStream_t stream) {
  with_words(words, [&]<unsigned kWords>() {
    launch_text_kernel<kWords>(clusters_kernel<kWords>, search, kParts, stream);
  });
}

}  // namespace warplite::gpu

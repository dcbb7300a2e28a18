#include "cpu/ivf/coarse.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "compute/host/rotation.h"
#include "cpu/ivf/candidates.h"
#include "cpu/ivf/rabitq_lists.h"
#include "cpu/runtime/cpu_buffer.h"
#include "cpu/runtime/item_loop.h"
#include "cpu/scan/query_set.h"
#include "cpu/scan/score_rows.h"
#include "cpu/scan/search.h"

namespace warplite::cpu {
namespace {

constexpr std::size_t kGroupsBetweenChecks = 16;
constexpr std::size_t kThreadLists = std::size_t{1} << 14;  // to sort that are worth a thread
constexpr std::size_t kThreadBytes = std::size_t{1} << 18;  // of codes that are worth a thread

// A search for vectors among centroids.
compute::Workload centroid_search(const compute::IvfWork& work) {
  compute::Workload search;
  search.distance = work.distance == Distance::kInnerProduct ? work.distance : Distance::kL2;
  search.queries = {reinterpret_cast<const std::byte*>(work.model_queries), work.queries.rows,
                    work.model.shape.dim, ElementType::kFloat32};
  search.cancellation = work.cancellation;
  return search;
}

// What (float)D of ivf.h is of a canonical distance.
float squared(Distance distance, double d) {
  return static_cast<float>(distance == Distance::kInnerProduct ? d : d * d);
}

// The nearest of a few lists, exactly.
class NearestOfFew {
 public:
  explicit NearestOfFew(const compute::IvfWork& work)
      : search_(centroid_search(work)),
        kernels_(scan_kernels()),
        queries_(search_, kernels_),
        score_(kernels_.score(ElementType::kFloat32, search_.distance)),
        centroids_(CpuBuffer::of(work.model.centroids).data()),
        stride_(search_.queries.stride()),
        nprobe_(work.nprobe) {}

  // `few`: keys of candidates.
  void choose(std::size_t query, const std::vector<std::uint64_t>& few,
              std::vector<Probe>& out) const {
    std::vector<std::uint32_t> lists(few.size());
    std::transform(few.begin(), few.end(), lists.begin(), Candidates::ordinal_of);
    std::vector<double> scores(few.size());
    ask_for(lists, 0);
    for (std::size_t first = 0; first < lists.size(); first += kTogether) {
      ask_for(lists, first + kTogether);
      score_(queries_[query], centroids_, lists.data() + first,
             std::min(kTogether, lists.size() - first), scores.data() + first);
    }
    std::vector<std::pair<double, std::uint32_t>> nearest;
    nearest.reserve(lists.size());
    for (std::size_t i = 0; i < lists.size(); ++i) {
      nearest.emplace_back(distance_of_score(search_.distance, scores[i]), lists[i]);
    }
    const std::size_t wanted = std::min(nearest.size(), nprobe_);
    const auto end = nearest.begin() + static_cast<std::ptrdiff_t>(wanted);
    std::sort(nearest.begin(), nearest.end());
    out.reserve(wanted);
    for (auto it = nearest.begin(); it != end; ++it) {
      out.push_back({squared(search_.distance, it->first), it->second});
    }
  }

 private:
  static constexpr std::size_t kTogether = 16;

  // Memory brings some while those before are compared.
  void ask_for(std::span<const std::uint32_t> lists, std::size_t first) const {
    for (std::size_t i = first; i < std::min(first + kTogether, lists.size()); ++i) {
      const std::byte* const centroid = centroids_ + lists[i] * stride_;
      for (std::size_t at = 0; at < stride_; at += 64) __builtin_prefetch(centroid + at);
    }
  }

  const compute::Workload search_;
  const ScanKernels& kernels_;
  const QuerySet queries_;
  const ScoreRows score_;
  const std::byte* const centroids_;
  const std::size_t stride_;
  const std::size_t nprobe_;
};

// Lists of RaBitQ codes; and those of others that are in groups, by their codes.
class CodedLists {
 public:
  explicit CodedLists(const compute::IvfWork& work)
      : work_(work),
        shape_(work.model.shape),
        product_(work.distance == Distance::kInnerProduct),
        centroids_(reinterpret_cast<const float*>(CpuBuffer::of(work.model.centroids).data())) {
    if (shape_.planes == 0) nearest_.emplace(work);
    if (shape_.groups == 0) return;
    run_ = IvfRunView::of(shape_.coarse(), CpuBuffer::of(work.model.coarse).data(),
                          work.model.coarse_positions);
  }

  std::vector<std::vector<Probe>> run() {
    std::vector<std::vector<Probe>> lists(work_.queries.rows);
    const std::size_t bytes = lists.size() * shape_.lists * shape_.coarse().code_stride();
    const auto threads = static_cast<unsigned>(std::clamp<std::size_t>(
        bytes / kThreadBytes, 1, std::min<std::size_t>(lists.size(), compute::thread_count())));
    std::vector<std::optional<Thread>> state(threads);
    ItemLoop loop(work_.cancellation);
    loop.run(threads, lists.size(), [&](unsigned thread, std::size_t query) {
      if (!state[thread]) state[thread].emplace(*this, loop, thread);
      state[thread]->search(query, lists[query]);
    });
    return lists;
  }

 private:
  // What one thread needs.
  class Thread {
   public:
    Thread(const CodedLists& all, ItemLoop& loop, unsigned number)
        : all_(all),
          loop_(loop),
          number_(number),
          candidates_(all.shape_.coarse_candidates(all.work_.nprobe)) {
      if (all.shape_.groups != 0) lists_.emplace(all.shape_.coarse(), all.product_, false);
    }

    void search(std::size_t query, std::vector<Probe>& out) {
      const float* y = all_.work_.model_queries + query * all_.shape_.dim;
      candidates_.clear();
      if (all_.shape_.groups == 0) {
        compare(y, 0, all_.shape_.lists);
        for (std::uint32_t i = 0; i < distances_.size(); ++i) {
          if (!(distances_[i] > candidates_.limit())) candidates_.push(distances_[i], i);
        }
      } else if (all_.nearest_ && candidates_.keep() == all_.shape_.lists) {
        for (std::uint32_t i = 0; i < all_.shape_.lists; ++i) candidates_.push(0, i);
      } else {
        look_at_groups(all_.nearest_ ? rotated(y) : y);
      }
      if (all_.nearest_) return all_.nearest_->choose(query, candidates_.by_ordinal(), out);
      const std::vector<std::uint64_t>& best = candidates_.by_score();
      out.reserve(best.size());
      for (const std::uint64_t key : best) {
        out.push_back({Candidates::score_of(key), Candidates::ordinal_of(key)});
      }
    }

   private:
    // Nearest first, so that little of the others is looked at closely.
    void look_at_groups(const float* y) {
      compare(y, all_.shape_.lists, all_.shape_.groups);
      groups_.clear();
      groups_.reserve(distances_.size());
      for (std::uint32_t i = 0; i < distances_.size(); ++i) {
        groups_.push_back(Candidates::key(distances_[i], i));
      }
      std::sort(groups_.begin(), groups_.end());
      for (std::size_t i = 0; i < groups_.size(); ++i) {
        if (i % kGroupsBetweenChecks == kGroupsBetweenChecks - 1) loop_.check(number_);
        const std::uint32_t group = Candidates::ordinal_of(groups_[i]);
        const RabitqLists::Viewer viewer{y, &candidates_};
        lists_->enter({&viewer, 1}, all_.centroid(all_.shape_.lists + group));
        lists_->scan({&all_.run_, all_.run_.begins[group], all_.run_.ends[group], nullptr, 0});
      }
      lists_->end();
    }

    const float* rotated(const float* y) {
      rotated_.assign(y, y + all_.shape_.dim);
      compute::rotate_at_random(all_.shape_.dim, rotated_.data());
      return rotated_.data();
    }

    // D of some centroids, by number.
    void compare(const float* y, std::uint32_t first, std::uint32_t count) {
      distances_.resize(count);
      rabitq_kernels().distances(y, all_.centroid(first), count, all_.shape_.dim, all_.product_,
                                 distances_.data());
    }

    const CodedLists& all_;
    ItemLoop& loop_;
    const unsigned number_;
    std::optional<RabitqLists> lists_;
    std::vector<float> rotated_, distances_;
    std::vector<std::uint64_t> groups_;
    Candidates candidates_;
  };

  const float* centroid(std::uint32_t number) const {
    return centroids_ + std::size_t{number} * shape_.dim;
  }

  const compute::IvfWork& work_;
  const compute::IvfShape& shape_;
  const bool product_;
  const float* const centroids_;
  std::optional<NearestOfFew> nearest_;
  IvfRunView run_{};
};

// Exactly, as a search of vectors.
std::vector<std::vector<Probe>> nearest_centroids(const compute::IvfWork& work) {
  compute::Block centroids;
  centroids.vectors = work.model.centroids;
  centroids.rows = centroids.live_rows = work.model.shape.lists;
  compute::Workload coarse = centroid_search(work);
  coarse.blocks = {&centroids, 1};
  compute::HitTable nearest(work.queries.rows, work.nprobe);
  search_nearest(coarse, nearest);
  // To sort the lists of many queries that probe all takes a while.
  std::vector<std::vector<Probe>> lists(work.queries.rows);
  const auto threads = static_cast<unsigned>(
      std::clamp<std::size_t>(lists.size() * work.nprobe / kThreadLists, 1,
                              std::min<std::size_t>(lists.size(), compute::thread_count())));
  ItemLoop loop(work.cancellation);
  loop.run(threads, lists.size(), [&](unsigned, std::size_t q) {
    for (const Hit& hit : nearest.sorted(q)) {
      lists[q].push_back({squared(coarse.distance, hit.distance), hit.row});
    }
  });
  return lists;
}

}  // namespace

std::vector<std::vector<Probe>> choose_lists(const compute::IvfWork& work) {
  const compute::IvfShape& shape = work.model.shape;
  return shape.planes != 0 || shape.groups != 0 ? CodedLists(work).run() : nearest_centroids(work);
}

}  // namespace warplite::cpu

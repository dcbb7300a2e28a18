#include "cpu/ivf/coarse.h"

#include <algorithm>
#include <optional>

#include "cpu/ivf/candidates.h"
#include "cpu/ivf/rabitq_lists.h"
#include "cpu/runtime/cpu_buffer.h"
#include "cpu/runtime/item_loop.h"
#include "cpu/scan/search.h"

namespace warplite::cpu {
namespace {

constexpr std::size_t kGroupsBetweenChecks = 16;
constexpr std::size_t kThreadLists = std::size_t{1} << 14;  // to sort that are worth a thread
constexpr std::size_t kThreadBytes = std::size_t{1} << 18;  // of codes that are worth a thread

// Lists of RaBitQ codes, in groups when there are many.
class CodedLists {
 public:
  explicit CodedLists(const compute::IvfWork& work)
      : work_(work),
        shape_(work.model.shape),
        product_(work.distance == Distance::kInnerProduct),
        centroids_(reinterpret_cast<const float*>(CpuBuffer::of(work.model.centroids).data())) {
    if (shape_.groups == 0) return;
    run_ = IvfRunView::of(shape_.coarse(), CpuBuffer::of(work.model.coarse).data(),
                          work.model.coarse_positions);
  }

  std::vector<std::vector<Probe>> run() {
    std::vector<std::vector<Probe>> lists(work_.queries.rows);
    const std::size_t bytes = lists.size() * shape_.lists * shape_.code_stride();
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
          candidates_(std::min(all.work_.nprobe, all.shape_.lists)) {
      if (all.shape_.groups != 0) lists_.emplace(all.shape_.coarse(), all.product_);
    }

    void search(std::size_t query, std::vector<Probe>& out) {
      const float* y = all_.work_.model_queries + query * all_.shape_.dim;
      candidates_.clear();
      if (all_.shape_.groups == 0) {
        compare(y, 0, all_.shape_.lists);
        for (std::uint32_t i = 0; i < distances_.size(); ++i)
          candidates_.push(distances_[i], i);
      } else {
        look_at_groups(y);
      }
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
        lists_->enter(y, all_.centroid(all_.shape_.lists + group), candidates_);
        lists_->scan({&all_.run_, all_.run_.begins[group], all_.run_.begins[group + 1], nullptr, 0});
      }
      lists_->end();
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
    std::vector<float> distances_;
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
  IvfRunView run_{};
};

// Exactly, as a search of vectors.
std::vector<std::vector<Probe>> nearest_centroids(const compute::IvfWork& work) {
  const bool product = work.distance == Distance::kInnerProduct;
  const compute::IvfShape& shape = work.model.shape;
  compute::Block centroids;
  centroids.vectors = work.model.centroids;
  centroids.rows = centroids.live_rows = shape.lists;
  compute::Workload coarse;
  coarse.distance = product ? Distance::kInnerProduct : Distance::kL2;
  coarse.queries = {reinterpret_cast<const std::byte*>(work.model_queries), work.queries.rows,
                    shape.dim, ElementType::kFloat32};
  coarse.blocks = {&centroids, 1};
  coarse.cancellation = work.cancellation;
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
      const double d = hit.distance;
      lists[q].push_back({static_cast<float>(product ? d : d * d), hit.row});
    }
  });
  return lists;
}

}  // namespace

std::vector<std::vector<Probe>> choose_lists(const compute::IvfWork& work) {
  return work.model.shape.planes != 0 ? CodedLists(work).run() : nearest_centroids(work);
}

}  // namespace warplite::cpu

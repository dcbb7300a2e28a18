#include "cpu/ivf/assign.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "compute/device.h"
#include "cpu/runtime/item_loop.h"
#include "cpu/scan/bounded_product.h"
#include "cpu/scan/query_set.h"
#include "cpu/scan/scan_kernels.h"
#include "cpu/scan/score_rows.h"
#include "cpu/scan/search.h"
#include "cpu/scan/worker.h"

namespace warplite::cpu {
namespace {

constexpr std::size_t kFewestRows = 7;  // as of queries of a Nominator
constexpr std::uint32_t kFewestLists = 2;
// Rows that a thread takes at once: each time it packs the centroids anew, which is little beside
// their products with so many rows, and keeps no copy of them all.
constexpr std::size_t kItemRows = 960;
constexpr std::size_t kFewestItemRows = 64;
constexpr std::size_t kItemBytes = std::size_t{8} << 20;
constexpr std::size_t kThreadSteps = std::size_t{1} << 22;  // multiply-adds worth a thread
constexpr double kInfinity = std::numeric_limits<double>::infinity();

MatrixView rows_of(const compute::AssignWork& work, std::size_t first, std::size_t count) {
  return {reinterpret_cast<const std::byte*>(work.rows + first * work.dim), count, work.dim,
          ElementType::kFloat32};
}

const std::byte* centroids_of(const compute::AssignWork& work) {
  return CpuBuffer::of(work.centroids).data();
}

// Searches centroids for the rows of `numbers`, whose results hold what is known: an upper bound.
void search_rows(const compute::AssignWork& work, const std::vector<std::size_t>& numbers) {
  if (numbers.empty()) return;
  std::vector<float> rows(numbers.size() * work.dim);
  compute::HitTable best(numbers.size(), 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::copy_n(work.rows + numbers[i] * work.dim, work.dim, rows.data() + i * work.dim);
    best.row(i).tighten(work.out[numbers[i]].distance);
  }
  compute::Block block;
  block.vectors = work.centroids;
  block.rows = block.live_rows = work.lists;
  compute::Workload search;
  search.queries = {reinterpret_cast<const std::byte*>(rows.data()), numbers.size(), work.dim,
                    ElementType::kFloat32};
  search.blocks = {&block, 1};
  search.cancellation = work.cancellation;
  search_nearest(search, best);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::span<const Hit> hits = best.sorted(i);
    compute::Assigned& out = work.out[numbers[i]];
    out = hits.empty() ? compute::Assigned{0, std::numeric_limits<double>::quiet_NaN()}
                       : compute::Assigned{hits.front().row, hits.front().distance};
  }
}

class Assignment {
 public:
  explicit Assignment(const compute::AssignWork& work)
      : work_(work),
        kernels_(scan_kernels()),
        score_(kernels_.score(ElementType::kFloat32, Distance::kL2)),
        product_(kernels_.gemm, kernels_.gemm.panel_for(work.count), Distance::kL2, ElementType::kFloat32, work.dim,
                 BoundedProduct::sample_of(
                     {centroids_of(work), work.lists, work.dim, ElementType::kFloat32}),
                 BoundedProduct::sample_of(rows_of(work, 0, work.count))),
        loop_(work.cancellation),
        proved_(work.count) {}

  // Returns the rows of which nothing is proved but that the nearest centroid is not farther than
  // their result says.
  std::vector<std::size_t> run() {
    const std::size_t cores = compute::thread_count();
    const std::size_t most =
        std::clamp(kItemBytes / (work_.dim * sizeof(float)), product_.panel_queries(), kItemRows);
    const std::size_t share = std::max(kFewestItemRows, (work_.count + cores - 1) / cores);
    const std::size_t rows = std::min(most, share) / product_.panel_queries() * product_.panel_queries();
    const std::size_t items = (work_.count + rows - 1) / rows;
    const std::size_t useful = work_.count * work_.lists * work_.dim / kThreadSteps;
    const std::size_t threads = std::clamp<std::size_t>(useful, 1, std::min(items, cores));
    scratch_.resize(threads);
    loop_.run(static_cast<unsigned>(threads), items, [&](unsigned thread, std::size_t item) {
      assign(thread, item * rows, std::min(rows, work_.count - item * rows));
    });
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < work_.count; ++i) {
      if (proved_[i] == 0) left.push_back(i);
    }
    return left;
  }

 private:
  // Memory of one thread.
  struct Scratch {
    BoundedProduct::Queries rows;
    std::vector<LeastTwo> leasts;         // of each row
    BoundedProduct::Rows centroids;       // one block of them
    std::vector<std::uint32_t> numbers;
    Bytes dots;
  };

  void assign(unsigned thread, std::size_t first, std::size_t count) {
    Scratch& scratch = scratch_[thread];
    if (scratch.numbers.empty()) {
      scratch.centroids = product_.make_rows(block());
      scratch.numbers.resize(block());
      scratch.dots = Bytes(product_.dots_bytes());
    }
    const MatrixView rows = rows_of(work_, first, count);
    product_.pack_queries(rows, &scratch.rows);
    scratch.leasts.assign(count, LeastTwo());
    for (std::uint32_t list = 0; list < work_.lists; list += block()) {
      const std::uint32_t lists = std::min(block(), work_.lists - list);
      if (!pack_centroids(list, lists, &scratch)) return;
      add_centroids(thread, list, lists);
    }
    for (std::size_t i = 0; i < count; i += kFewestItemRows) prove(scratch, first, i, count);
  }

  // False when one is so large that its products may overflow.
  bool pack_centroids(std::uint32_t list, std::uint32_t lists, Scratch* scratch) const {
    std::iota(scratch->numbers.begin(), scratch->numbers.end(), list);
    product_.pack_rows(centroids_of(work_), scratch->numbers.data(), lists, &scratch->centroids);
    constexpr float kNone = std::numeric_limits<float>::infinity();
    const auto begin = scratch->centroids.halves.begin(), end = begin + lists;
    std::fill(end, scratch->centroids.halves.end(), kNone);  // the padding is never near
    return std::find(begin, end, -kNone) == end;
  }

  // Compares the rows with these centroids.
  void add_centroids(unsigned thread, std::uint32_t list, std::uint32_t lists) {
    Scratch& scratch = scratch_[thread];
    const GemmKernels& gemm = kernels_.gemm;
    float* const dots = reinterpret_cast<float*>(scratch.dots.data());
    const std::size_t count = scratch.leasts.size(), panels = product_.panels_of(count);
    for (std::size_t panel = 0; panel < panels; panel += product_.panel_group()) {
      loop_.check(thread);
      const std::size_t group = std::min(product_.panel_group(), panels - panel);
      product_.multiply(scratch.rows, panel, group, scratch.centroids, lists, dots);
      const std::size_t begin = panel * product_.panel_queries();
      const std::size_t end = std::min(count, begin + group * product_.panel_queries());
      for (std::size_t i = begin; i < end; ++i) {
        gemm.least_two(dots + (i - begin) * block(), scratch.centroids.halves.data(),
                       scratch.centroids.norms.data(), product_.padded_rows(lists),
                       scratch.rows.bounds[i].slack, list, scratch.leasts[i]);
      }
    }
  }

  // For some rows from `begin` of the item on, proves that the centroid of the least bound is the
  // nearest. If that is so, its canonical distance is the result, and else a bound.
  void prove(const Scratch& scratch, std::size_t item, std::size_t begin, std::size_t count) {
    compute::Workload few;
    few.queries = rows_of(work_, item + begin, std::min(kFewestItemRows, count - begin));
    const QuerySet queries(few, kernels_);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const BoundedProduct::Query& bounds = scratch.rows.bounds[begin + i];
      const LeastTwo& leasts = scratch.leasts[begin + i];
      if (!bounds.usable) continue;
      double score;
      score_(queries[i], centroids_of(work_), &leasts.at, 1, &score);
      const double distance = distance_of_score(Distance::kL2, score);
      work_.out[item + begin + i] = {leasts.at, distance};
      proved_[item + begin + i] = leasts.second > -product_.offset(bounds, distance);
    }
  }

  std::uint32_t block() const { return static_cast<std::uint32_t>(product_.block_rows()); }

  const compute::AssignWork& work_;
  const ScanKernels& kernels_;
  const ScoreRows score_;
  const BoundedProduct product_;
  ItemLoop loop_;
  std::vector<Scratch> scratch_;
  std::vector<std::uint8_t> proved_;
};

}  // namespace

void assign_nearest(const compute::AssignWork& work) {
  std::fill_n(work.out, work.count, compute::Assigned{0, kInfinity});
  const bool suits = work.count >= kFewestRows && work.lists >= kFewestLists &&
                     BoundedProduct::suits(Distance::kL2, work.dim);
  std::vector<std::size_t> left(suits ? 0 : work.count);
  std::iota(left.begin(), left.end(), std::size_t{0});
  if (suits) left = Assignment(work).run();
  search_rows(work, left);
}

}  // namespace warplite::cpu

#include "gpu/ivf/rabitq_search.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "gpu/ivf/ivf.h"
#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/groups.h"
#include "gpu/runtime/stop.h"
#include "gpu/runtime/threads.h"
#include "gpu/select/candidates.h"

namespace warplite::gpu {
namespace {

constexpr std::size_t kMostMemory = std::size_t{2} << 30, kMemoryPart = 32;
constexpr std::size_t kMostGroup = 16384;  // queries
constexpr std::size_t kCopiedByThread = std::size_t{1} << 19;
// Queries for which lists are searched on tensor cores, although hardly two of them share a list:
// of 10 million rows, 16 queries take half the time, 100 a fifth.
constexpr std::size_t kLeastShared = 8;
// Lists of a query that limits are made from, where so few have rows enough; of few lists a part.
constexpr std::uint32_t kFirstLists = 8, kFirstPart = 4;
// Thread blocks that share a query of which more was found than there was room for, at most.
constexpr std::uint32_t kLostSlices = 32, kLostParts = 4;
// Of many lists every so many are searched before limits are lowered for the rest.
constexpr std::uint32_t kLeastInStages = 64, kFirstStagePart = 6;
// What tensor cores may find of a query besides 8 · wanted, so that hardly any is lost.
constexpr std::uint32_t kSpareKeys = 1024;
// What is dealt out to a slice so that it is worth its block: something for each warp.
constexpr std::uint32_t kSliceUnits = 8, kMostSlices = 128;
// Each part of a list makes the list's tables.
constexpr std::uint32_t kMostParts = 8;

IvfRunView view_of(const compute::IvfShape& shape, const compute::Buffer* bytes,
                   std::uint32_t positions, std::uint32_t first_ordinal) {
  const compute::IvfLayout at = compute::IvfLayout::of(shape, positions);
  const CudaBuffer& buffer = CudaBuffer::of(bytes);
  return {buffer.at<std::uint32_t>(at.begins),
          buffer.at<std::uint32_t>(at.ends),
          buffer.at<std::uint32_t>(at.ordinals),
          nullptr,
          buffer.at<std::uint8_t>(at.codes),
          buffer.at<std::uint8_t>(at.records),
          first_ordinal,
          0,
          nullptr};
}

std::size_t keys_of_lists(std::size_t wanted) {
  return 8 * wanted + kSpareKeys;
}

// Of each query, those of which somebody asks how many of their rows take part.
std::uint32_t counted_lists(const compute::IvfWork& work) {
  if (work.probed == nullptr) return 0;
  return static_cast<std::uint32_t>(compute::IvfWork::counted_lists(work.told()));
}

// Says whether to lower limits on the way gains more than it costs. To look into a list for a few queries takes nearly
// as long as for many, and twice as long if it is done twice: where 31 queries share a list, 13 % of a batch.
bool pays_in_stages(std::uint64_t queries, std::uint32_t nprobe, std::uint32_t lists) {
  constexpr std::uint32_t kManySharing = 12;
  if (nprobe < kLeastInStages) return false;
  const bool few_share = queries * nprobe <= lists;
  return few_share || queries * (nprobe / kFirstStagePart) >= std::uint64_t{kManySharing} * lists;
}

// Of as many of a query's lists as have a few times the rows that are wanted.
RabitqBounds bounds_of(const compute::IvfShape& shape, std::uint32_t nprobe, std::uint32_t wanted,
                       std::uint32_t rows) {
  const std::uint32_t each = rows / std::max(shape.lists, 1u) + 1;
  const std::uint32_t least = std::clamp(nprobe / kFirstPart, 1u, kFirstLists);
  return rabitq_bounds(std::max(least, 4 * wanted / each), each);
}

}  // namespace

// How lists are found, or rows.
struct RabitqSearch::Level {
  Deal deal;
  std::uint32_t wanted;
  // Of a query's first lists, which limits for all are made from; none: lists are searched query by
  // query.
  RabitqBounds bounds{};
  // Not 0: more are wanted than a thread block can keep the best of, so that all are, which are so many.
  std::uint32_t all = 0;

  bool by_lists() const { return all != 0 || bounds.lists != 0; }
  // Pairs of a query with lists of one stage. The first lists are fewer than half.
  std::size_t most_pairs(std::uint32_t nprobe) const {
    return by_lists() ? nprobe - bounds.lists : 0;
  }
  std::size_t keys() const {  // of a query
    if (all != 0) return all;
    return by_lists() ? keys_of_lists(wanted) : std::size_t{deal.slices} * wanted;
  }
};

// What finds keys, one after the other.
enum class RabitqSearch::Search : std::size_t { kOrder, kLists, kRows, kCount };

// Says what lies in scratch memory; pieces up to `sent` come from the host.
struct RabitqSearch::Pieces {
  static constexpr std::size_t kSearches = static_cast<std::size_t>(Search::kCount);
  const compute::IvfWork& work;
  std::size_t count;
  Level lists_level, rows_level;
  const MatrixView& queries = work.queries;
  const compute::IvfShape& shape = work.model.shape;
  // Pairs of queries and lists that are looked at list by list.
  std::size_t most_pairs =
      count * std::max(lists_level.most_pairs(shape.groups), rows_level.most_pairs(work.nprobe));
  std::size_t pair_lists = most_pairs == 0 ? 0 : std::max(shape.lists, shape.groups) + 1;
  Plan plan{};
  Slot<std::byte> raw{plan, count* queries.stride()};
  bool in_model_space = work.model_queries != nullptr;  // as they are given
  Slot<float> model{plan, in_model_space ? count * shape.dim : 0};
  Slot<IvfRunView> runs{plan, work.runs.size() + 1};  // the last: of lists
  Slot<std::uint64_t> limits{plan, kSearches* count};
  Slot<std::uint32_t> counts{plan, kSearches* count};
  Slot<std::uint32_t> stop{plan, 1};
  Plan sent = plan;
  Slot<float> rotated{plan, in_model_space ? 0 : count * shape.dim};
  Slot<std::uint64_t> keys{
      plan, count* std::max({lists_level.keys(), rows_level.keys(), lists_without_order()})};
  Slot<std::uint32_t> lists{plan, count* work.nprobe};
  Slot<std::uint32_t> eighths{plan, count};
  Slot<double> real{plan, count* padded_query(queries.type, queries.dim)};
  Slot<double> squares{plan, count};
  Slot<std::uint32_t> nominees{plan, count* kMostNominated};
  Slot<std::uint32_t> nominee_counts{plan, count};

  Slot<std::uint32_t> groups{plan, lists_level.by_lists() ? count * shape.groups : 0};
  Slot<std::uint64_t> sorted{plan, count * room_to_order(work.nprobe)};
  Slot<std::uint32_t> pair_counts{plan, pair_lists};
  Slot<std::uint32_t> first_pairs{plan, pair_lists};
  Slot<std::uint32_t> first_units{plan, pair_lists};
  Slot<uint2> pairs{plan, most_pairs};
  Slot<std::uint32_t> bounds{plan,
                             count* std::max(lists_level.bounds.stride, rows_level.bounds.stride)};
  Slot<std::uint32_t> lost{plan, count + 1};
  std::uint32_t counted = counted_lists(work);
  Slot<compute::ProbedList> sights{plan, count * counted};

  // Keys of a query where all of something are compared, to put it in order.
  std::size_t lists_without_order() const {
    if (shape.groups == 0) return shape.lists;
    return lists_level.by_lists() ? shape.groups : 0;
  }
  IvfPairs pairs_of(const Arena& arena) const {
    return {arena[pair_counts], arena[first_pairs], arena[first_units], arena[pairs]};
  }
  RabitqBest best(const Arena& arena, Search search, std::size_t stride) const {
    const std::size_t at = static_cast<std::size_t>(search) * count;
    return {arena[keys], static_cast<std::uint32_t>(stride), arena[counts] + at,
            arena[limits] + at};
  }
};

// What is told of a group's lists.
struct RabitqSearch::Sights {
  Sights(Plan& plan, const Pieces& at)
      : counted(at.counted),
        count(counted == 0 ? 0 : at.count),
        lists(plan, count * counted),
        left(plan, count) {}
  std::uint32_t counted;
  std::size_t count;
  Slot<compute::ProbedList> lists;
  Slot<float> left;
};

bool RabitqSearch::supports(const Gpu& gpu, const compute::IvfShape& shape) {
  return shape.dim != 0 && shape.lists != 0 && shape.planes != 0 &&
         rabitq_fits(shape, kMostNominated, gpu.shared_memory());
}

RabitqSearch::RabitqSearch(const Gpu& gpu, Lane& lane, const compute::IvfWork& work)
    : gpu_(gpu),
      lane_(lane),
      work_(work),
      shape_(work.model.shape),
      rows_(IvfRows::of(gpu, lane, work)),
      table_(rows_->table()) {
  std::size_t block = 0;
  for (const compute::IvfRun& run : work.runs) {
    IvfRunView& view = views_.emplace_back(
        view_of(shape_, run.bytes, run.positions, rows_->rows().first_ordinal(block)));
    block += run.blocks.size();
    if (!rows_->rows().all_live()) {
      view.live = masks_
                      .emplace_back(LiveMask::of(CudaBuffer::of(run.bytes), view, run.positions,
                                                 table_, work.filter, lane))
                      ->bits();
    }
  }
  views_.push_back(shape_.groups == 0 ? IvfRunView{}
                                      : view_of(shape_.coarse(), work.model.coarse,
                                                work.model.coarse_positions, 0));
}

RabitqSearch::Deal RabitqSearch::deal(std::size_t queries, std::uint32_t lists, double rows) const {
  const auto wanted = static_cast<std::uint32_t>(2 * gpu_.multiprocessors() / queries);
  const std::uint32_t most = std::clamp(wanted, 1u, kMostSlices);
  if (most == 1 || lists == 0) return {1, 1};
  const auto groups = static_cast<std::uint32_t>(rows / compute::RabitqGroup::kRows / lists) + 1;
  const std::uint32_t parts =
      std::min({(most * kSliceUnits + lists - 1) / lists, groups, kMostParts});
  return {std::clamp(lists * parts / kSliceUnits, 1u, most), parts};
}

double RabitqSearch::rows_of_lists() const {
  return std::min(1.0, static_cast<double>(work_.nprobe) / shape_.lists) * table_.rows;
}

std::size_t RabitqSearch::queries_at_once() const {
  const std::size_t lists = std::max<std::size_t>(
      shape_.groups == 0 || keeps_all_lists() ? shape_.lists + room_to_order(work_.nprobe) : 0,
      keys_of_lists(std::max(keeps_all_lists() ? 0 : work_.nprobe, nominated_)));
  const std::size_t bounds =
      std::max(bounds_of(shape_, work_.nprobe, nominated_, table_.rows).stride,
               bounds_of(shape_.coarse(), shape_.groups, work_.nprobe, shape_.lists).stride);
  const std::size_t bytes =
      lists * sizeof(std::uint64_t) + (bounds + work_.nprobe) * sizeof(std::uint32_t) +
      std::max(shape_.groups, work_.nprobe) * (sizeof(uint2) + sizeof(std::uint32_t)) +
      work_.queries.dim * std::size_t{16} + kMostNominated * sizeof(std::uint32_t) +
      nominated_ * sizeof(Candidate) + counted_lists(work_) * sizeof(compute::ProbedList);
  const std::size_t memory = std::min(kMostMemory, gpu_.memory_total() / kMemoryPart);
  return std::clamp<std::size_t>(memory / bytes, 1, kMostGroup);
}

void RabitqSearch::nearest(compute::HitTable& best) {
  const std::size_t refine = std::max<std::size_t>(work_.refine, 1);
  if (best.k() > kMostNominated || best.k() * refine > kMostNominated ||
      (!every_list() && !orders_lists())) {
    throw Error(ErrorKind::kUnsupported, "more than " + std::to_string(kMostNominated) +
                                             " nominees, or " + std::to_string(work_.nprobe) +
                                             " lists, a query");
  }
  nominated_ = static_cast<std::uint32_t>(best.k() * refine);
  in_groups(work_.queries.rows, queries_at_once(), 1,
            [&](std::size_t first, std::size_t count) { search_group(first, count, best); });
}

void RabitqSearch::search_group(std::size_t first, std::size_t count, compute::HitTable& best) {
  const std::uint32_t groups = every_list() ? 0 : shape_.groups;
  Level lists{deal(count, groups, shape_.lists), every_list() ? 0 : work_.nprobe};
  Level rows{
      deal(count, static_cast<std::uint32_t>(work_.nprobe * work_.runs.size()), rows_of_lists()),
      nominated_};
  if (!every_list()) {
    if (keeps_all_lists()) {
      lists.all = shape_.lists;
    } else {
      share_lists(lists, shape_.coarse(), count, groups, shape_.lists);
    }
    share_lists(rows, shape_, count, work_.nprobe, table_.rows);
  }
  const Pieces at{work_, count, lists, rows};
  const Arena arena = lane_.scratch(at.plan);
  send(first, at, arena);
  if (!every_list()) find_lists(at, arena);
  find_rows(at, arena);
  finish(at, arena, first, best);
}

void RabitqSearch::send(std::size_t first, const Pieces& at, const Arena& arena) {
  const Staging host = lane_.outgoing(at.sent);
  in_parallel(at.count, at.raw.bytes() / kCopiedByThread, [&](std::size_t i) {
    const std::size_t stride = work_.queries.stride();
    std::memcpy(host[at.raw].data() + i * stride, work_.queries.row(first + i), stride);
    if (!at.in_model_space) return;
    std::copy_n(work_.model_queries + (first + i) * shape_.dim, shape_.dim,
                host[at.model].data() + i * shape_.dim);
  });
  std::ranges::fill(host[at.limits], ~std::uint64_t{0});
  std::ranges::fill(host[at.counts], 0u);
  host[at.stop].front() = 0;
  std::ranges::copy(views_, host[at.runs].begin());
  host.send(at.sent, arena, lane_.stream(), "sending queries");
  if (at.in_model_space) return;
  const MatrixView& queries = work_.queries;
  launch_rabitq_rotate({arena[at.raw], arena[at.rotated], queries.type,
                        static_cast<std::uint32_t>(at.count), queries.dim,
                        static_cast<std::uint32_t>(queries.stride()),
                        info(work_.distance).norms},
                       lane_.stream());
}

RabitqScan RabitqSearch::scan_of(const Pieces& at, const Arena& arena) const {
  RabitqScan scan{};
  scan.shape = shape_;
  scan.product = work_.distance == Distance::kInnerProduct;
  scan.queries = arena[at.in_model_space ? at.model : at.rotated];
  scan.count = static_cast<std::uint32_t>(at.count);
  scan.centroids = CudaBuffer::of(work_.model.centroids).at<float>(0);
  scan.stop = arena[at.stop];
  return scan;
}

void RabitqSearch::share_lists(Level& level, const compute::IvfShape& shape, std::size_t queries,
                               std::uint32_t nprobe, std::uint32_t rows) const {
  const RabitqBounds bounds = bounds_of(shape, nprobe, level.wanted, rows);
  if (nprobe > 2 * bounds.lists && queries >= kLeastShared &&
      rabitq_lists_fit(shape, gpu_.capability(), gpu_.shared_memory())) {
    level.bounds = bounds;
  }
}

void RabitqSearch::search_lists(RabitqScan scan, const Level& level, const Pieces& at,
                                const Arena& arena) {
  scan.wanted = level.wanted;
  scan.slices = level.deal.slices;
  scan.parts = level.deal.parts;
  if (!level.by_lists()) return launch_rabitq(scan, gpu_.shared_memory(), lane_.stream());
  const std::uint32_t nprobe = scan.nprobe;
  const auto units_from = [&](std::uint32_t first, std::uint32_t end) {
    scan.nprobe = end;
    return launch_rabitq_units(scan, first, at.pairs_of(arena), lane_.stream());
  };
  if (level.all != 0) return launch_rabitq_lists(scan, units_from(0, nprobe), lane_.stream());
  std::uint32_t first = level.bounds.lists;
  const RabitqUnits units = units_from(0, first);
  RabitqBounds bounds = level.bounds;
  bounds.keys = arena[at.bounds];
  launch_guess_limits(scan, units, bounds, lane_.stream());
  launch_rabitq_lists(scan, units, lane_.stream());
  launch_lower_limits(scan.best, scan.count, scan.wanted, lane_.stream());
  if (pays_in_stages(scan.count, nprobe, scan.shape.lists)) {
    const std::uint32_t end = first + nprobe / kFirstStagePart;
    launch_rabitq_lists(scan, units_from(first, end), lane_.stream());
    launch_lower_limits(scan.best, scan.count, scan.wanted, lane_.stream());
    first = end;
  }
  launch_rabitq_lists(scan, units_from(first, nprobe), lane_.stream());
  launch_find_lost(scan.best, scan.count, scan.wanted, arena[at.lost], lane_.stream());
  scan.lost = arena[at.lost];
  scan.slices = std::min(kLostSlices, scan.best.stride / scan.wanted);
  scan.parts = kLostParts;
  launch_rabitq(scan, gpu_.shared_memory(), lane_.stream());
}

void RabitqSearch::find_lists(const Pieces& at, const Arena& arena) {
  RabitqScan scan = scan_of(at, arena);
  const RabitqBest compared = at.best(arena, Search::kOrder, at.lists_without_order());
  scan.best = compared;
  if (shape_.groups == 0) {
    launch_list_distances(scan, lane_.stream());
  } else {
    scan.shape = shape_.coarse();
    scan.with_signs = compute::signs_count_by_elements(scan.shape.planes, false);
    scan.centroids += std::size_t{shape_.lists} * shape_.dim;
    scan.runs = arena[at.runs] + work_.runs.size();
    scan.run_count = 1;
    scan.nprobe = scan.list_stride = shape_.groups;
    if (at.lists_level.by_lists()) {
      launch_list_distances(scan, lane_.stream());
      launch_order_lists(compared, scan.count, {shape_.groups, arena[at.groups], nullptr},
                         gpu_.shared_memory(), lane_.stream());
      scan.lists = arena[at.groups];
    }
    scan.best = at.best(arena, Search::kLists, at.lists_level.keys());
    search_lists(scan, at.lists_level, at, arena);
  }
  launch_order_lists(scan.best, scan.count,
                     {work_.nprobe, arena[at.lists], arena[at.sorted], work_.steps(), arena[at.eighths]},
                     gpu_.shared_memory(), lane_.stream());
}

RabitqScan RabitqSearch::scan_of_rows(const Pieces& at, const Arena& arena) const {
  RabitqScan scan = scan_of(at, arena);
  scan.with_signs = compute::signs_count_by_elements(shape_.planes, work_.codes_decide);
  scan.runs = arena[at.runs];
  scan.run_count = static_cast<std::uint32_t>(work_.runs.size());
  scan.lists = every_list() ? nullptr : arena[at.lists];
  scan.list_stride = work_.nprobe;
  scan.nprobe = work_.nprobe;
  scan.best = at.best(arena, Search::kRows, at.rows_level.keys());
  scan.by_runs = at.rows_level.deal.slices != 1;
  return scan;
}

bool RabitqSearch::keeps_all_lists() const {
  return shape_.groups != 0 && !every_list() &&
         !rabitq_fits(shape_, work_.nprobe, gpu_.shared_memory());
}

bool RabitqSearch::orders_lists() const {
  return shape_.groups == 0 || rabitq_fits(shape_, work_.nprobe, gpu_.shared_memory()) ||
         rabitq_lists_fit(shape_.coarse(), gpu_.capability(), gpu_.shared_memory());
}

void RabitqSearch::find_rows(const Pieces& at, const Arena& arena) {
  search_lists(scan_of_rows(at, arena), at.rows_level, at, arena);
}

void RabitqSearch::see_lists(const Pieces& at, const Arena& arena, const Sights& sights,
                             const Arena& incoming) {
  if (sights.count == 0) return;
  RabitqScan scan = scan_of_rows(at, arena);
  scan.wanted = nominated_;
  const std::uint32_t* const eighths = work_.steps().known() ? arena[at.eighths] : nullptr;
  launch_rabitq_sights(scan, {arena[at.sights], incoming[sights.left], sights.counted, eighths},
                       lane_.stream());
  check(cudaMemcpyAsync(incoming[sights.lists], arena[at.sights], at.sights.bytes(),
                        cudaMemcpyDeviceToHost, lane_.stream()),
        "fetching what was counted");
}

void RabitqSearch::take_sights(std::size_t first, const Sights& sights,
                               const Arena& incoming) const {
  in_parallel(sights.count, sights.lists.bytes() / kCopiedByThread, [&](std::size_t q) {
    const compute::ProbedList* const lists = incoming[sights.lists] + q * sights.counted;
    compute::ProbedList* const probed = work_.probed_of(first + q);
    for (std::size_t i = 0; i < sights.counted; ++i) {
      compute::ProbedList& list = probed[compute::IvfWork::counted_place(i)];
      list = {list.rows + lists[i].rows, list.live + lists[i].live, lists[i].list, lists[i].a};
    }
    if (work_.left == nullptr) return;
    float& left = work_.left[first + q];
    left = std::min(left, incoming[sights.left][q]);
  });
}

void RabitqSearch::finish(const Pieces& at, const Arena& arena, std::size_t first,
                          compute::HitTable& best) {
  const MatrixView& queries = work_.queries;
  Plan plan;
  const Slot<Candidate> candidates(plan, at.count * nominated_);
  const Slot<std::uint32_t> found(plan, at.count);
  const Slot<std::uint32_t> one(plan, 1);
  const Sights sights(plan, at);
  const Arena incoming = lane_.incoming(plan);
  IvfSearchView found_rows{};
  found_rows.shape = shape_;
  found_rows.distance = work_.distance;
  found_rows.type = queries.type;
  found_rows.table = table_;
  found_rows.queries = static_cast<std::uint32_t>(at.count);
  found_rows.nominated = nominated_;
  found_rows.collected = arena[at.keys];
  found_rows.collect_stride = static_cast<std::uint32_t>(at.rows_level.keys());
  found_rows.collected_counts = at.best(arena, Search::kRows, 0).counts;
  if (canonical()) {
    PreparedQueries prepared{};
    prepared.real = arena[at.real];
    prepared.bytes = arena.bytes(at.real);
    prepared.squares = arena[at.squares];
    launch_prepare({queries.type, work_.distance, queries.dim, found_rows.queries, 0, 0},
                   arena[at.raw], prepared, lane_.stream());
    Nominees nominees{};
    nominees.queries = found_rows.queries;
    nominees.k = static_cast<std::uint32_t>(best.k());
    nominees.capacity = kMostNominated;
    nominees.ordinals = arena[at.nominees];
    nominees.counts = arena[at.nominee_counts];
    launch_ivf_nominate(found_rows, nominees, lane_.stream());
    launch_rescore({table_, queries.type, work_.distance, prepared, nominees, nullptr, nominated_,
                    incoming[candidates], incoming[found]},
                   lane_.stream());
  } else {
    launch_ivf_emit(found_rows, incoming[candidates], incoming[found], lane_.stream());
  }
  see_lists(at, arena, sights, incoming);
  Stop stop(work_.cancellation, arena[at.stop], incoming[one]);
  lane_.wait(&stop);
  std::vector<std::uint32_t> lost;  // none: there is room for all
  take_candidates(rows_->rows(), {incoming[candidates], incoming[found], at.count, nominated_}, first, best,
                  lost);
  take_sights(first, sights, incoming);
}

}  // namespace warplite::gpu

#include "gpu/ivf/search.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include "gpu/batch/batch_search.h"
#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/groups.h"
#include "gpu/scan/scan.h"
#include "gpu/scan/scan_search.h"
#include "gpu/select/candidates.h"

namespace warplite::gpu {
namespace {

constexpr std::size_t kGroupMemory = std::size_t{1} << 30;
constexpr std::size_t kMostGroup = 16384;  // queries
// Up to this many queries are each compared with the centroids by themselves, without a look at
// what was found.
constexpr std::size_t kFewProbing = 4;
constexpr std::uint32_t kCentroidGroup = 64;
// Equal distances among whole vectors.
constexpr std::uint32_t kLeastCollected = 2048;
constexpr std::uint32_t kRoomForTies = 32;

const std::byte* address(const compute::Buffer* buffer) {
  return CudaBuffer::of(buffer).data();
}

std::uint32_t collect_stride(std::uint32_t nominated) {
  return std::max(kLeastCollected, nominated * kGroupRows);
}

}  // namespace

// Says what lies in scratch memory; pieces up to `sent` come from the host.
struct IvfSearch::Pieces {
  const compute::IvfWork& work;
  std::size_t count;
  std::size_t few;  // as many if they are compared with the centroids one by one, or else 0
  std::size_t group_stride, collect_stride;
  const MatrixView& queries = work.queries;
  const compute::IvfShape& shape = work.model.shape;
  bool coded = shape.m != 0;
  std::size_t probes = count * work.nprobe, list_count = shape.lists;
  Plan plan{};
  Slot<std::byte> raw{plan, count * queries.stride()};
  Slot<float> model{plan, coded || few != 0 ? count * shape.dim : 0};
  Slot<float> mean{plan, coded ? shape.dim : 0};
  Slot<IvfRunView> runs{plan, work.runs.size()};
  Slot<RowBlock> centroids{plan, 1};
  Plan sent = plan;
  Slot<double> real{plan, count * padded_query(queries.type, queries.dim)};
  Slot<double> squares{plan, count};
  Slot<std::uint8_t> tables{plan, count * shape.m * shape.codewords()};
  Slot<float> steps{plan, count};
  Slot<float> offsets{plan, count};
  Slot<std::uint32_t> lists{plan, probes};
  Slot<float> distances{plan, probes};
  Slot<std::uint32_t> groups{plan, probes + count};
  Slot<std::uint32_t> counts{plan, list_count};
  Slot<std::uint32_t> first_pairs{plan, list_count + 1};
  Slot<std::uint32_t> first_units{plan, list_count + 1};
  Slot<uint2> pairs{plan, probes};
  Slot<std::uint64_t> least{plan, count * group_stride};
  Slot<std::uint64_t> collected{plan, count * collect_stride};
  Slot<std::uint32_t> collected_counts{plan, count};
  Slot<std::uint32_t> nominees{plan, count * kMostNominated};
  Slot<std::uint32_t> nominee_counts{plan, count};
  Slot<double> coarse_real{plan, few * padded_query(ElementType::kFloat32, shape.dim)};
  Slot<double> coarse_squares{plan, few};
  Slot<double> list_distances{plan, few == 0 ? 0 : list_count};
  Slot<float> list_least{plan, few == 0 ? 0 : list_count};
};

// What kernels write for the host.
struct IvfSearch::Results {
  std::size_t count;
  std::uint32_t room;
  Plan plan{};
  Slot<std::uint32_t> lost{plan, 1};  // not 0: the probes were not found
  Slot<Candidate> candidates{plan, count * room};
  Slot<std::uint32_t> found{plan, count};
};

// What a group of queries needs besides.
struct IvfSearch::Scratch {
  DeviceBytes nearest;  // centroids, `coarse_room` a query
  std::size_t coarse_room;
  bool few;
  Results results;
  Arena incoming;  // where they are
  PreparedQueries prepared{};
  Nominees nominees{};
  // These serve a few queries: the centroids as rows, and their distances.
  const std::byte* model_queries = nullptr;
  RowTable lists{};
  PreparedQueries coarse{};
  double* list_distances = nullptr;
  float* list_least = nullptr;
};

bool IvfSearch::supports(const Gpu& gpu, const compute::IvfShape& shape) {
  constexpr std::uint32_t kMostSubSpaces = 257;  // sums fit 16 bits
  if (shape.dim == 0 || shape.lists == 0 || shape.listwise || shape.groups != 0) return false;
  if (shape.m == 0) return true;
  return shape.dim % shape.m == 0 && shape.m <= kMostSubSpaces &&
         (shape.bits == 8 || shape.bits == 4) &&
         ivf_scan_shared(shape) <= gpu.shared_memory() - 1024 &&
         (shape.dim + 2 * std::size_t{shape.m}) * sizeof(float) <= 48 * 1024;
}

IvfSearch::IvfSearch(const Gpu& gpu, Lane& lane, const compute::IvfWork& work)
    : gpu_(gpu), lane_(lane), work_(work), rows_(IvfRows::of(gpu, lane, work)) {
  std::uint64_t groups = 0, longest = 0;
  for (const compute::IvfRun& run : work.runs) {
    groups += run.positions / kGroupRows + std::min(run.positions, work.model.shape.lists);
    longest += (run.longest + kGroupRows - 1) / kGroupRows;
  }
  most_groups_ = static_cast<std::uint32_t>(std::min(groups, longest * work.nprobe));
  centroids_.vectors = work.model.centroids;
  centroids_.rows = centroids_.live_rows = work.model.shape.lists;
}

std::size_t IvfSearch::bytes_per_query() const {
  const compute::IvfShape& shape = work_.model.shape;
  return std::size_t{shape.m} * shape.codewords() + work_.nprobe * std::size_t{64} +
         most_groups_ * sizeof(std::uint64_t) +
         collect_stride(nominated_) * sizeof(std::uint64_t) +
         work_.queries.dim * std::size_t{16} + kMostNominated * sizeof(std::uint32_t);
}

void IvfSearch::nearest(compute::HitTable& best) {
  const std::size_t refine = coded() ? std::max<std::size_t>(work_.refine, 1) : 1;
  if (best.k() > kMostNominated || best.k() * refine > kMostNominated) {
    throw Error(ErrorKind::kUnsupported, "more than " + std::to_string(kMostNominated) +
                                             " nominees a query");
  }
  nominated_ = static_cast<std::uint32_t>(best.k() * refine);
  const std::size_t group =
      std::clamp<std::size_t>(kGroupMemory / bytes_per_query(), 1, kMostGroup);
  in_groups(work_.queries.rows, group, 1, [&](std::size_t first, std::size_t count) {
    const bool few = count <= kFewProbing && work_.nprobe <= kMostSorted;
    if (!few || !search_group(first, count, true, best)) search_group(first, count, false, best);
  });
}

void IvfSearch::probe(std::size_t first, std::size_t count, std::size_t room, Candidate* out) {
  const compute::IvfShape& shape = work_.model.shape;
  compute::Workload coarse;
  coarse.distance =
      work_.distance == Distance::kInnerProduct ? Distance::kInnerProduct : Distance::kL2;
  coarse.queries = {reinterpret_cast<const std::byte*>(work_.model_queries + first * shape.dim),
                    count, shape.dim, ElementType::kFloat32};
  coarse.blocks = {&centroids_, 1};
  coarse.cancellation = work_.cancellation;
  RowSet rows(coarse.blocks, coarse.queries);
  const RowTable table = rows.upload(lane_);
  std::vector<std::uint32_t> left(count);
  std::iota(left.begin(), left.end(), 0u);
  if (BatchSearch::suits(gpu_, coarse, work_.nprobe, rows.rows())) {
    const DeviceBytes found(count * sizeof(std::uint32_t), lane_.pool(), lane_.stream());
    BatchSearch search(gpu_, lane_, coarse, rows, table);
    if (search.nearest_into(work_.nprobe, static_cast<std::uint32_t>(room), out,
                            found.as<std::uint32_t>())) {
      std::vector<std::uint32_t> counts(count);
      check(cudaMemcpyAsync(counts.data(), found.data(), found.size(), cudaMemcpyDeviceToHost,
                            lane_.stream()),
            "fetching probes");
      lane_.wait(work_.cancellation);
      std::erase_if(left, [&](std::uint32_t q) { return counts[q] <= room; });
    }
  }
  if (left.empty()) return;
  compute::HitTable nearest(count, work_.nprobe);
  ScanSearch(lane_, coarse, rows, table).nearest(left, nearest);
  for (const std::uint32_t query : left) {
    const std::span<const Hit> hits = nearest.sorted(query);
    Plan plan;
    const Slot<Candidate> probes(plan, hits.size());
    const std::span<Candidate> host = lane_.outgoing(plan)[probes];
    for (std::size_t i = 0; i < hits.size(); ++i) host[i] = {hits[i].distance, 0, hits[i].row};
    check(cudaMemcpyAsync(out + query * room, host.data(), host.size_bytes(),
                          cudaMemcpyHostToDevice, lane_.stream()),
          "sending probes");
    lane_.wait(work_.cancellation);
  }
}

// Computes for each query the distances of all lists, and takes the nearest.
void IvfSearch::probe_few(const IvfSearchView& search, const Scratch& scratch,
                          std::uint32_t* lost) {
  const Distance distance =
      work_.distance == Distance::kInnerProduct ? Distance::kInnerProduct : Distance::kL2;
  const RowTable& lists = scratch.lists;
  launch_prepare({ElementType::kFloat32, distance, lists.dim, search.queries, 0, 0},
                 scratch.model_queries, scratch.coarse, lane_.stream());
  const std::uint32_t padded = padded_query(ElementType::kFloat32, lists.dim);
  for (std::uint32_t query = 0; query < search.queries; ++query) {
    launch_scan({lists,
                 ElementType::kFloat32,
                 distance,
                 {-std::numeric_limits<double>::infinity(),
                  std::numeric_limits<double>::infinity(), false, false},
                 1,
                 {scratch.coarse.real + std::size_t{query} * padded, nullptr,
                  scratch.coarse.squares + query, padded},
                 scratch.list_distances,
                 scratch.list_least,
                 0,
                 lists.groups},
                lane_.stream());
    launch_nearest_lists(scratch.list_distances, lists.rows, work_.nprobe,
                         scratch.nearest.as<Candidate>() + query * scratch.coarse_room, lost,
                         lane_.stream());
  }
}

bool IvfSearch::search_group(std::size_t first, std::size_t count, bool few,
                             compute::HitTable& best) {
  const std::size_t room = work_.nprobe + kRoomForTies;
  DeviceBytes nearest(count * room * sizeof(Candidate), lane_.pool(), lane_.stream());
  // Candidates that are not found stay at a distance that is no number.
  check(cudaMemsetAsync(nearest.data(), 0xff, nearest.size(), lane_.stream()), "choosing lists");
  if (!few) probe(first, count, room, nearest.as<Candidate>());
  const Results results{count, this->room()};
  Scratch scratch{std::move(nearest), room, few, results, lane_.incoming(results.plan)};
  const IvfSearchView search = prepare(first, count, scratch);
  std::uint32_t* const lost = scratch.incoming[results.lost];
  *lost = 0;
  if (few) probe_few(search, scratch, lost);
  launch_ivf_probes(search, scratch.nearest.as<Candidate>(), static_cast<std::uint32_t>(room),
                    lane_.stream());
  launch_ivf_scan(search, lane_.stream());
  launch_ivf_collect(search, lane_.stream());
  return finish(search, scratch, first, best);
}

void IvfSearch::send(std::size_t first, const Pieces& at, const Arena& arena) {
  const compute::IvfShape& shape = work_.model.shape;
  const bool ip = work_.distance == Distance::kInnerProduct;
  const Staging host = lane_.outgoing(at.sent);
  std::memcpy(host[at.raw].data(), work_.queries.row(first), at.raw.bytes());
  if (at.model.count() != 0) {
    std::copy_n(work_.model_queries + first * shape.dim, at.model.count(), host[at.model].begin());
  }
  if (!ip) std::copy_n(work_.model.mean, at.mean.count(), host[at.mean].begin());
  const std::span<IvfRunView> runs = host[at.runs];
  std::size_t block = 0;
  for (std::size_t r = 0; r < work_.runs.size(); ++r) {
    const compute::IvfRun& run = work_.runs[r];
    const compute::IvfLayout layout = compute::IvfLayout::of(shape, run.positions);
    const CudaBuffer& buffer = CudaBuffer::of(run.bytes);
    runs[r] = {buffer.at<std::uint32_t>(layout.begins), buffer.at<std::uint32_t>(layout.ends), buffer.at<std::uint32_t>(layout.ordinals),
               buffer.at<float>(layout.bias), buffer.at<std::uint8_t>(layout.codes), nullptr, rows_->rows().first_ordinal(block), 0, nullptr};
    block += run.blocks.size();
  }
  host[at.centroids].front() = {address(work_.model.centroids), nullptr, shape.lists, 0, 0, 0};
  host.send(at.sent, arena, lane_.stream(), "sending queries");
}

IvfSearchView IvfSearch::view(const Pieces& at, const Arena& arena, Scratch& scratch) const {
  const compute::IvfShape& shape = work_.model.shape;
  const MatrixView& queries = work_.queries;
  IvfSearchView search{};
  search.shape = shape;
  search.distance = work_.distance;
  search.type = queries.type;
  search.runs = arena[at.runs];
  search.run_count = static_cast<std::uint32_t>(work_.runs.size());
  search.table = rows_->table();
  search.all_live = rows_->rows().all_live();
  search.queries = static_cast<std::uint32_t>(at.count);
  search.tables = {arena[at.tables], arena[at.steps], arena[at.offsets]};
  search.probes = {work_.nprobe, arena[at.lists], arena[at.distances], arena[at.groups],
                   work_.steps()};
  search.pairs = {arena[at.counts], arena[at.first_pairs], arena[at.first_units], arena[at.pairs]};
  search.least = arena[at.least];
  search.group_stride = most_groups_;
  search.nominated = nominated_;
  search.collected = arena[at.collected];
  search.collect_stride = collect_stride(nominated_);
  search.collected_counts = arena[at.collected_counts];

  PreparedQueries& prepared = scratch.prepared;
  prepared.real = arena[at.real];
  prepared.bytes = arena.bytes(at.real);
  prepared.squares = arena[at.squares];
  search.terms = {prepared.real, prepared.bytes, prepared.squares,
                  padded_query(queries.type, queries.dim)};
  search.direct = scratch.few;
  search.slack = ivf_slack(shape, queries.type, work_.distance);
  search.raw = reinterpret_cast<const float*>(arena[at.raw]);
  Nominees& nominees = scratch.nominees;
  nominees.queries = search.queries;
  nominees.capacity = kMostNominated;
  nominees.ordinals = arena[at.nominees];
  nominees.counts = arena[at.nominee_counts];
  return search;
}

// The centroids as rows, for the queries that are compared with them one by one.
void IvfSearch::view_centroids(const Pieces& at, const Arena& arena, Scratch& scratch) const {
  const compute::IvfShape& shape = work_.model.shape;
  scratch.model_queries = arena.bytes(at.model);
  scratch.lists = {arena[at.centroids],
                   1,
                   shape.lists,
                   (shape.lists + kCentroidGroup - 1) / kCentroidGroup,
                   kCentroidGroup,
                   shape.dim,
                   shape.dim * static_cast<std::uint32_t>(sizeof(float)),
                   shape.dim % 4 == 0};
  scratch.coarse.real = arena[at.coarse_real];
  scratch.coarse.squares = arena[at.coarse_squares];
  scratch.list_distances = arena[at.list_distances];
  scratch.list_least = arena[at.list_least];
}

// Sends what the kernels need, and computes tables and queries.
IvfSearchView IvfSearch::prepare(std::size_t first, std::size_t count, Scratch& scratch) {
  const compute::IvfShape& shape = work_.model.shape;
  const MatrixView& queries = work_.queries;
  const bool ip = work_.distance == Distance::kInnerProduct;
  const Pieces at{work_, count, scratch.few ? count : 0, most_groups_, collect_stride(nominated_)};
  const Arena arena = lane_.scratch(at.plan);
  send(first, at, arena);
  const IvfSearchView search = view(at, arena, scratch);
  view_centroids(at, arena, scratch);
  if (canonical()) {
    launch_prepare({queries.type, work_.distance, queries.dim, search.queries, 0, 0},
                   arena[at.raw], scratch.prepared, lane_.stream());
  }
  if (coded()) {
    launch_ivf_tables({shape, ip, arena[at.model], search.queries, arena[at.mean],
                       CudaBuffer::of(work_.model.codebooks).at<float>(0), search.tables},
                      lane_.stream());
  }
  return search;
}

std::uint32_t IvfSearch::room() const {
  return coded() ? nominated_ : std::min(nominated_ + kRoomForTies, kMostNominated);
}

bool IvfSearch::finish(const IvfSearchView& search, const Scratch& scratch, std::size_t first,
                       compute::HitTable& best) {
  const std::size_t count = search.queries;
  Candidate* const candidates = scratch.incoming[scratch.results.candidates];
  std::uint32_t* const found = scratch.incoming[scratch.results.found];
  if (canonical()) {
    Nominees nominees = scratch.nominees;
    nominees.k = static_cast<std::uint32_t>(best.k());
    launch_ivf_nominate(search, nominees, lane_.stream());
    launch_rescore({rows_->table(), work_.queries.type, work_.distance, scratch.prepared, nominees,
                    nullptr, room(), candidates, found},
                   lane_.stream());
  } else {
    launch_ivf_emit(search, candidates, found, lane_.stream());
  }
  lane_.wait(work_.cancellation);
  if (*scratch.incoming[scratch.results.lost] != 0) return false;
  std::vector<std::uint32_t> lost;
  take_candidates(rows_->rows(), {candidates, found, count, room()}, first, best, lost);
  if (lost.empty()) return true;
  // Whole vectors, more of them equally far than there was room for.
  std::vector<std::uint32_t> lists(count * work_.nprobe);
  check(cudaMemcpyAsync(lists.data(), search.probes.lists, lists.size() * sizeof(std::uint32_t),
                        cudaMemcpyDeviceToHost, lane_.stream()),
        "fetching probes");
  lane_.wait(work_.cancellation);
  for (const std::uint32_t query : lost) {
    nearest_among({lists.data() + (query - first) * work_.nprobe, work_.nprobe}, query, best);
  }
  return true;
}

// The rows of the lists, as the scan searches them.
void IvfSearch::nearest_among(std::span<const std::uint32_t> lists, std::uint32_t query,
                              compute::HitTable& best) {
  std::vector<compute::Block> blocks;
  std::vector<std::vector<std::uint64_t>> live;
  std::vector<std::uint32_t> first_ordinals;
  std::uint32_t ordinals = 0;
  for (const compute::IvfRun& run : work_.runs) {
    for (const compute::Block& block : run.blocks) {
      blocks.push_back(block);
      live.emplace_back((block.rows + 63) / 64);
      first_ordinals.push_back(ordinals);
      ordinals += block.rows;
    }
  }
  const auto add = [&](std::uint32_t ordinal) {
    const auto after = std::upper_bound(first_ordinals.begin(), first_ordinals.end(), ordinal);
    const auto block = static_cast<std::size_t>(after - first_ordinals.begin()) - 1;
    const std::uint32_t row = ordinal - first_ordinals[block];
    const std::uint64_t* given = blocks[block].live;
    const std::uint64_t bit = std::uint64_t{1} << (row % 64);
    if (given == nullptr || (given[row / 64] & bit) != 0) live[block][row / 64] |= bit;
  };
  std::uint32_t run_first = 0;
  for (const compute::IvfRun& run : work_.runs) {
    for_ordinals(run, lists, [&](std::uint32_t ordinal) { add(run_first + ordinal); });
    for (const compute::Block& block : run.blocks) run_first += block.rows;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].live = live[i].data();
    blocks[i].live_rows = 0;
    for (const std::uint64_t word : live[i]) {
      blocks[i].live_rows += static_cast<std::uint32_t>(std::popcount(word));
    }
  }
  compute::Workload work;
  work.distance = work_.distance;
  work.queries = work_.queries;
  work.blocks = blocks;
  work.cancellation = work_.cancellation;
  std::size_t next = 0;
  while (next < blocks.size()) {
    RowSet rows(work, next);
    if (rows.rows() == 0) continue;
    const RowTable table = rows.upload(lane_);
    ScanSearch(lane_, work, rows, table).nearest({&query, 1}, best);
  }
}

template <typename Visit>
void IvfSearch::for_ordinals(const compute::IvfRun& run, std::span<const std::uint32_t> lists,
                             const Visit& visit) const {
  const compute::IvfLayout layout = compute::IvfLayout::of(work_.model.shape, run.positions);
  const auto fetch = [&](std::size_t at, std::uint32_t first, std::uint32_t count) {
    std::vector<std::uint32_t> values(count);
    check(cudaMemcpyAsync(values.data(), address(run.bytes) + at + first * sizeof(std::uint32_t),
                          count * sizeof(std::uint32_t), cudaMemcpyDefault, lane_.stream()),
          "fetching a list");
    lane_.wait(work_.cancellation);
    return values;
  };
  for (const std::uint32_t list : lists) {
    if (list == kNoList) continue;
    const std::vector<std::uint32_t> ends = fetch(layout.begins, list, 2);
    for (const std::uint32_t ordinal : fetch(layout.ordinals, ends[0], ends[1] - ends[0])) {
      if (ordinal != compute::kNoOrdinal) visit(ordinal);
    }
  }
}

}  // namespace warplite::gpu

#include "gpu/batch/threshold_search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "gpu/batch/threshold.h"
#include "gpu/runtime/threads.h"

namespace warplite::gpu {
namespace {

// For fewer queries or rows, the host's share takes longer than passes over the rows.
constexpr std::size_t kLeastQueries = 5;
constexpr std::uint32_t kLeastRows = 256;
// Nominees of a query and of some tiles that have room, at least: more than a tile has rows.
constexpr std::uint32_t kLeastCapacity = 2048;
constexpr std::size_t kPinnedMemory = std::size_t{64} << 20;
constexpr std::size_t kGroupMemory = std::size_t{2} << 30;
// Nominees that are worth a thread of their own.
constexpr std::size_t kNomineesPerThread = 16 << 10;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

bool ThresholdSearch::suits(const Gpu& gpu, const compute::Workload& work, std::size_t k,
                            const RowSet& rows) {
  return info(work.distance).product && work.sample.size() >= k &&
         work.queries.rows >= kLeastQueries && rows.rows() >= kLeastRows && !work.has_after &&
         work.range.unbounded() &&
         product_for(gpu, work.queries.dim) != ProductKind::kNone &&
         work.queries.rows >= least_queries(gpu, work.queries.type, work.queries.dim);
}

std::optional<std::vector<std::uint32_t>> ThresholdSearch::nearest(compute::HitTable& best) {
  Queries lost;
  shape_ = tile_shape(gpu_, work_.queries.dim, static_cast<std::uint32_t>(work_.queries.rows));
  if (!make_tiles()) return std::nullopt;
  send_sample();
  const std::size_t device_bytes = 12 * (sample_tiles_.size() * shape_.rows + 2 * capacity()) +
                                   16 * std::size_t{work_.queries.dim};
  // The size is converted to the measure of for_groups(): pinned memory is the scarcer.
  const std::size_t pinned = pinned_bytes() * (kGroupMemory / kPinnedMemory);
  for_groups(std::max(device_bytes, pinned), [&](std::size_t first, std::size_t count) {
    search_group(first, count, best, lost);
  });
  return lost;
}

// The rows of the sample that are in this set of rows; fewer than k of them tell nothing.
void ThresholdSearch::send_sample() {
  std::vector<std::uint32_t> ordinals;
  std::vector<std::size_t> places(work_.blocks.size(), rows_.blocks().size());
  for (std::size_t i = 0; i < rows_.blocks().size(); ++i) {
    places[static_cast<std::size_t>(rows_.blocks()[i] - work_.blocks.data())] = i;
  }
  for (const compute::SampleRow& at : work_.sample) {
    const std::size_t place = places[at.block];
    if (place == rows_.blocks().size()) continue;
    ordinals.push_back(rows_.first_ordinal(place) + at.row);
  }
  if (ordinals.size() < k_) return;
  sample_ = gather(table_, sources(), ordinals, lane_);
  add_tiles(sample_, sample_tiles_);
  device_sample_tiles_ = send_tiles(sample_tiles_);
}

std::uint32_t ThresholdSearch::capacity() const {
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(kLeastCapacity, (2 * k_ + 255) / 256 * 256));
}

std::size_t ThresholdSearch::pinned_bytes() const {
  return 2 * (capacity() * sizeof(Candidate) + 2 * sizeof(std::uint32_t) + sizeof(double)) +
         sizeof(float);
}

void ThresholdSearch::search_group(std::size_t first, std::size_t count, compute::HitTable& best,
                                   Queries& lost) {
  Group group;
  start(first, count, group);
  bound(group, first, best);
  search_tiles(group);
  for (std::uint32_t q = 0; q < count; ++q) {
    if (group.limits[q] == -std::numeric_limits<float>::infinity()) {
      lost.push_back(static_cast<std::uint32_t>(first) + q);
    }
  }
  // All threads sort the hits here, rather than whoever reads one query after the other.
  in_parallel(count, count * k_ / kNomineesPerThread, [&](std::size_t q) {
    std::vector<Hit> hits = group.heaps[q].values();
    std::sort(hits.begin(), hits.end());
    for (const Hit& hit : hits) best.row(first + q).push(hit);
  });
}

void ThresholdSearch::start(std::size_t first, std::size_t count, Group& group) {
  const std::size_t sample_rows = sample_tiles_.size() * shape_.rows;
  Plan extra;
  const Slot<float> masked(extra, count + shape_.queries);
  const Slot<std::uint32_t> counts(extra, count);
  const Slot<float2> bounds(extra, count * capacity());
  const Slot<std::uint32_t> ordinals(extra, count * capacity());
  const Slot<float2> sample_bounds(extra, count * sample_rows);
  const Slot<std::uint32_t> sample_ordinals(extra, count * sample_rows);
  group.work = start_group(first, count, k_, capacity(), extra);
  group.masked = extra_[masked];

  Nominees& nominees = group.turns[0].nominees = group.work.nominees;
  Nominees& other = group.turns[1].nominees = nominees;
  other.counts = extra_[counts];
  other.bounds = extra_[bounds];
  other.ordinals = extra_[ordinals];
  group.sample = nominees;
  group.sample.capacity = static_cast<std::uint32_t>(sample_rows);
  group.sample.bounds = extra_[sample_bounds];
  group.sample.ordinals = extra_[sample_ordinals];
  place(group, count);
  group.heaps.assign(count, MinMaxHeap<Hit>(k_));
}

// Pinned memory.
void ThresholdSearch::place(Group& group, std::size_t count) {
  struct Pieces {
    Plan& plan;
    std::size_t queries, capacity;
    Slot<Candidate> candidates{plan, queries * capacity};
    Slot<std::uint32_t> found{plan, queries};
    Slot<double> farthest{plan, queries};
    Slot<std::uint32_t> chosen{plan, queries};
  };
  Plan plan;
  const Pieces pieces[2] = {{plan, count, capacity()}, {plan, count, capacity()}};
  const Slot<float> limits(plan, count);
  const Arena arena = lane_.incoming(plan);
  for (int i = 0; i < 2; ++i) {
    Turn& turn = group.turns[i];
    turn.candidates = arena[pieces[i].candidates];
    turn.found = arena[pieces[i].found];
    turn.farthest = arena[pieces[i].farthest];
    turn.chosen = arena[pieces[i].chosen];
  }
  group.limits = arena[limits];
}

// The first limits: by the sample, and by what was found before.
void ThresholdSearch::bound(Group& group, std::size_t first, compute::HitTable& best) {
  const std::uint32_t queries = group.work.nominees.queries;
  const std::uint32_t tile_queries = (queries + shape_.queries - 1) / shape_.queries *
                                     shape_.queries;
  const cudaStream_t stream = lane_.stream();
  launch_start(group.work.nominees, group.work.prepared.norms, tile_queries, 0, stream);
  if (!sample_tiles_.empty()) {
    Nominate work = group.work;
    work.nominees = group.sample;
    work.tiles = device_sample_tiles_.as<RowTile>();
    work.tile_count = static_cast<std::uint32_t>(sample_tiles_.size());
    work.keep_all = true;
    launch_nominate(work, stream);
    launch_bound(group.sample, group.sample.capacity, stream);
  }
  Turn& turn = group.turns[0];
  for (std::uint32_t q = 0; q < queries; ++q) turn.farthest[q] = best.row(first + q).threshold();
  launch_lower(group.work.nominees, group.work.prepared, work_.distance, turn.farthest, stream);
  check(cudaMemcpyAsync(group.limits, group.work.nominees.limits, queries * sizeof(float),
                        cudaMemcpyDeviceToHost, stream),
        "finding thresholds");
  lane_.wait(work_.cancellation);
  group.taken = sample_tiles_.empty() ? 0 : sample_.count;
}

void ThresholdSearch::search_tiles(Group& group) {
  const std::uint32_t total = tiles_->count;
  Queries all(group.work.nominees.queries);
  std::iota(all.begin(), all.end(), 0u);
  std::uint64_t on_its_way = 0;  // rows
  for (std::uint32_t done = 0, turn = 0; done < total; turn = 1 - turn) {
    const std::uint32_t end = done + std::min(total - done, next_tiles(group));
    launch(group, group.turns[turn], done, end, group.work.nominees.limits);
    take(group, group.turns[1 - turn], all);
    group.taken += std::exchange(on_its_way, std::uint64_t{end - done} * shape_.rows);
    done = end;
  }
  for (Turn& turn : group.turns) take(group, turn, all);
}

// Returns how many tiles fill half of a query's room, when rows come as those before them did.
std::uint32_t ThresholdSearch::next_tiles(const Group& group) const {
  const std::uint64_t rows =
      capacity() / 2 * std::max<std::uint64_t>(1, group.taken / k_);
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(rows / shape_.rows, 1, most_tiles(group.work)));
}

void ThresholdSearch::launch(Group& group, Turn& turn, std::uint32_t begin, std::uint32_t end,
                             float* limits) {
  const cudaStream_t stream = lane_.stream();
  check(cudaMemsetAsync(turn.nominees.counts, 0,
                        turn.nominees.queries * sizeof(std::uint32_t), stream),
        "nominating rows");
  Nominate work = group.work;
  work.nominees = turn.nominees;
  work.nominees.limits = limits;
  work.tiles = tiles_->memory.as<RowTile>() + begin;
  work.tile_count = end - begin;
  work.keep_all = false;
  launch_nominate(work, stream);
  launch_measure({table_, work_.queries.type, work_.distance, work.prepared, work.nominees,
                  compact_.ordinals, turn.candidates, turn.found},
                 stream);
  check(cudaEventRecord(turn.done, stream), "searching on the GPU");
  turn.begin = begin;
  turn.end = end;
}

// Selects among what the turn brings, for those queries.
void ThresholdSearch::take(Group& group, Turn& turn, const Queries& queries) {
  if (turn.begin == turn.end) return;
  wait(turn);
  const std::uint32_t begin = std::exchange(turn.begin, 0), end = std::exchange(turn.end, 0);
  std::size_t nominees = 0;
  Queries crowded;
  for (const std::uint32_t q : queries) {
    nominees += turn.found[q];
    if (turn.found[q] > capacity()) crowded.push_back(q);
  }
  in_parallel(queries.size(), nominees / kNomineesPerThread, [&](std::size_t i) {
    const std::uint32_t q = queries[i], found = turn.found[q];
    MinMaxHeap<Hit>& heap = group.heaps[q];
    const Candidate* const candidates = turn.candidates + std::size_t{q} * capacity();
    for (std::uint32_t c = 0; found <= capacity() && c < found; ++c) {
      if (heap.full() && candidates[c].distance > heap.max().distance) continue;
      heap.push(rows_.hit(candidates[c]));
    }
  });
  for (std::uint32_t q = 0; q < group.heaps.size(); ++q) {
    turn.farthest[q] = group.heaps[q].full() ? group.heaps[q].max().distance : kInfinity;
  }
  launch_lower(group.work.nominees, group.work.prepared, work_.distance, turn.farthest,
               lane_.stream());
  if (!crowded.empty()) do_again(group, turn, begin, end, crowded);
}

// A tile has fewer rows than a query has room for, so that halves come to an end.
void ThresholdSearch::do_again(Group& group, Turn& turn, std::uint32_t begin, std::uint32_t end,
                               const Queries& queries) {
  const std::uint32_t middle = begin + (end - begin) / 2;
  const std::uint32_t tile_queries =
      (group.work.nominees.queries + shape_.queries - 1) / shape_.queries * shape_.queries;
  for (auto [from, to] : {std::pair(begin, middle), std::pair(middle, end)}) {
    if (from == to) continue;
    std::fill_n(turn.chosen, group.work.nominees.queries, 0u);
    for (const std::uint32_t q : queries) turn.chosen[q] = 1;
    launch_mask(group.work.nominees, tile_queries, turn.chosen, group.masked, lane_.stream());
    launch(group, turn, from, to, group.masked);
    take(group, turn, queries);
  }
}

// Waits as Lane::wait() does, but only for what the turn brings.
void ThresholdSearch::wait(const Turn& turn) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kSpin{500}, kNap{50};
  const Clock::time_point begin = Clock::now();
  for (cudaError_t code; (code = cudaEventQuery(turn.done)) != cudaSuccess;) {
    if (code != cudaErrorNotReady) check(code, "searching on the GPU");
    if (Clock::now() - begin >= kSpin) std::this_thread::sleep_for(kNap);
  }
  if (work_.cancellation == nullptr || !work_.cancellation->requested()) return;
  lane_.wait(nullptr);
  throw Error(ErrorKind::kInterrupted, "interrupted");
}

}  // namespace warplite::gpu

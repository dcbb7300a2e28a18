#include "gpu/ivf/tally_pass.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gpu/batch/batch_search.h"
#include "gpu/ivf/assign.h"

namespace warplite::gpu {
namespace {

// Rows of one product: what is kept of each beside it takes 32 bytes and its vector.
constexpr std::uint32_t kRowsAtOnce = std::uint32_t{1} << 18;
// A row that is compared with every list by a scan takes longer than thousands of the product.
constexpr std::uint32_t kMostLost = 4096;
constexpr std::size_t kMostResults = std::size_t{1} << 30;  // bytes
// In which lists are summed by turns: with more the launches of each would show.
constexpr std::uint32_t kSteps = 8;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kUnsupported, what);
}

compute::Workload naming(const compute::TallyWork& work) {
  compute::Workload rows;
  rows.blocks = work.blocks;
  rows.queries = {nullptr, 0, work.dim, work.type};
  return rows;
}

}  // namespace

// What is summed of each list.
struct TallyPass::SumSlots {
  SumSlots(std::size_t lists, std::size_t dim)
      : sums(plan, lists * dim), squares(plan, lists), begins(plan, lists + 1),
        farthest(plan, lists) {}

  Plan plan;
  const Slot<double> sums, squares;
  const Slot<std::uint32_t> begins;
  const Slot<Candidate> farthest;
};

TallyPass::TallyPass(const Gpu& gpu, Lane& lane, const compute::TallyWork& work)
    : gpu_(gpu), lane_(lane), work_(work), rows_work_(naming(work)), rows_(rows_work_.blocks, rows_work_.queries) {
  centroids_.vectors = work.centroids;
  centroids_.rows = centroids_.live_rows = work.lists;
  if (std::size_t{work.lists} * work.dim * sizeof(double) > kMostResults) {
    refuse("the sums of " + std::to_string(work.lists) + " lists take too much memory");
  }
  const std::size_t rows = rows_.rows();
  const auto memory = [&](std::size_t bytes) {
    return DeviceBytes(bytes, lane.pool(), lane.stream());
  };
  lists_ = memory(rows * sizeof(std::uint32_t));
  distances_ = memory(rows * sizeof(double));
  if (work.normalised) norms_ = memory(rows * sizeof(double));
  listed_ = {rows_.upload(lane),         work.type,
             norms_.as<double>(),        work.lists,
             lists_.as<std::uint32_t>(), distances_.as<double>()};
}

void TallyPass::run(compute::ListTallies& out) {
  if (rows_.live_rows() == 0) return;
  const DeviceBytes lost((kMostLost + 1) * sizeof(std::uint32_t), lane_.pool(), lane_.stream());
  TakeLists to{};
  to.lost = lost.as<std::uint32_t>();
  to.lost_count = to.lost + kMostLost;
  to.room = kMostLost;
  check(cudaMemsetAsync(to.lost_count, 0, sizeof(std::uint32_t), lane_.stream()),
        "clearing a count");
  for (std::uint32_t first = 0; first < rows_.rows();) {
    const std::uint32_t count = std::min(kRowsAtOnce, rows_.rows() - first);
    assign(first, count, to);
    first += count;
  }
  assign_lost(to);
  sum(out);
}

void TallyPass::assign(std::uint32_t first, std::uint32_t count, const TakeLists& to) {
  compute::Workload search;
  search.blocks = {&centroids_, 1};
  search.cancellation = work_.cancellation;
  search.queries = {nullptr, count, work_.dim, ElementType::kFloat32};
  if (!BatchSearch::serves(gpu_, search, 1)) refuse("no product compares these rows");
  RowSet lists(search.blocks, search.queries);
  const RowTable table = lists.upload_once(gpu_, lane_);
  const DeviceBytes nearest(count * sizeof(Candidate), lane_.pool(), lane_.stream());
  const DeviceBytes found(count * sizeof(std::uint32_t), lane_.pool(), lane_.stream());
  BatchSearch batch(gpu_, lane_, search, lists, table);
  batch.load_queries_by([&](std::size_t begin, std::size_t some, std::byte* out) {
    const LoadRows load{first + static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(some),
                        nullptr, reinterpret_cast<float*>(out)};
    launch_load_rows(listed_, load, lane_.stream());
  });
  if (!batch.nearest_into(1, 1, nearest.as<Candidate>(), found.as<std::uint32_t>())) {
    refuse("there is no memory for a product");
  }
  TakeLists take = to;
  take.first = first;
  take.count = count;
  take.candidates = nearest.as<Candidate>();
  take.found = found.as<std::uint32_t>();
  launch_take_lists(listed_, take, lane_.stream());
}

void TallyPass::assign_lost(const TakeLists& lost) {
  auto* const ordinals = lane_.incoming<std::uint32_t>(kMostLost + 1);
  check(cudaMemcpyAsync(ordinals, lost.lost, (kMostLost + 1) * sizeof(std::uint32_t),
                        cudaMemcpyDeviceToHost, lane_.stream()),
        "fetching rows that are left");
  lane_.wait(work_.cancellation);
  const std::uint32_t count = ordinals[kMostLost];
  if (count == 0) return;
  if (count > kMostLost) refuse("the product proves the lists of too few rows");
  const std::vector<std::uint32_t> rows(ordinals, ordinals + count);

  const DeviceBytes loaded(std::size_t{count} * work_.dim * sizeof(float), lane_.pool(),
                           lane_.stream());
  launch_load_rows(listed_, {0, count, lost.lost, loaded.as<float>()}, lane_.stream());
  std::vector<float> vectors(std::size_t{count} * work_.dim);
  check(cudaMemcpyAsync(vectors.data(), loaded.data(), loaded.size(), cudaMemcpyDeviceToHost,
                        lane_.stream()),
        "fetching rows that are left");
  lane_.wait(work_.cancellation);

  compute::Workload search;
  search.blocks = {&centroids_, 1};
  search.cancellation = work_.cancellation;
  search.queries = {reinterpret_cast<const std::byte*>(vectors.data()), count, work_.dim,
                    ElementType::kFloat32};
  RowSet lists(search.blocks, search.queries);
  const RowTable table = lists.upload_once(gpu_, lane_);
  std::vector<compute::Assigned> assigned(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    assign_by_scan(lane_, search, lists, table, i, assigned[i]);
    const auto put = [&](const DeviceBytes& to, const auto& value) {
      check(cudaMemcpyAsync(to.data() + rows[i] * sizeof value, &value, sizeof value,
                            cudaMemcpyHostToDevice, lane_.stream()),
            "sending lists");
    };
    put(lists_, assigned[i].list);
    put(distances_, assigned[i].distance);
  }
  lane_.wait(work_.cancellation);
}

// Where others add to the same lists, some at a time, so that the next one need not wait for all.
void TallyPass::sum(compute::ListTallies& out) {
  const std::uint32_t rows = rows_.rows(), lists = work_.lists;
  const SumSlots slots(lists, work_.dim);
  Plan plan = slots.plan;
  const Slot<std::uint32_t> members(plan, rows);
  const Slot<std::byte> sorting(plan, sort_lists_scratch(rows));
  const Arena arena = lane_.scratch(plan), host = lane_.incoming(slots.plan);
  launch_sort_lists(listed_, arena[sorting], sorting.bytes(), arena[members], arena[slots.begins],
                    lane_.stream());
  check(cudaMemcpyAsync(host[slots.begins], arena[slots.begins], slots.begins.bytes(),
                        cudaMemcpyDeviceToHost, lane_.stream()),
        "fetching where lists begin");
  const std::uint32_t step = work_.turn == nullptr ? lists : (lists + kSteps - 1) / kSteps;
  for (std::uint32_t first = 0; first < lists;) {
    const std::uint32_t end = std::min(lists, first + step);
    if (work_.turn != nullptr && !work_.turn->await(end)) {
      throw Error(ErrorKind::kInterrupted, "interrupted");
    }
    send_sums(slots, arena, first, end, out);
    launch_sum_lists(listed_, arena[members], arena[slots.begins],
                     {first, end, arena[slots.sums], arena[slots.squares], arena[slots.farthest]},
                     lane_.stream());
    fetch_sums(slots, arena, first, end, out);
    if (work_.turn != nullptr) work_.turn->pass_on(end);
    first = end;
  }
}

void TallyPass::send_sums(const SumSlots& slots, const Arena& arena, std::uint32_t first,
                          std::uint32_t end, const compute::ListTallies& out) {
  const Arena host = lane_.incoming(slots.plan);
  const auto send = [&](const Slot<double>& slot, const double* from, std::size_t each) {
    const std::size_t at = first * each, count = (end - first) * each;
    double* const staged = std::copy_n(from + at, count, host[slot] + at) - count;
    check(cudaMemcpyAsync(arena[slot] + at, staged, count * sizeof(double), cudaMemcpyHostToDevice,
                          lane_.stream()),
          "sending sums of lists");
  };
  send(slots.sums, out.sums.data(), work_.dim);
  send(slots.squares, out.squares.data(), 1);
}

void TallyPass::fetch_sums(const SumSlots& slots, const Arena& arena, std::uint32_t first,
                           std::uint32_t end, compute::ListTallies& out) {
  const Arena host = lane_.incoming(slots.plan);
  const auto fetch = [&](const auto& slot, std::size_t each) {
    auto* const to = host[slot] + first * each;
    check(cudaMemcpyAsync(to, arena[slot] + first * each, (end - first) * each * sizeof *to,
                          cudaMemcpyDeviceToHost, lane_.stream()),
          "fetching sums of lists");
    return to;
  };
  const double* const sums = fetch(slots.sums, work_.dim);
  const double* const squares = fetch(slots.squares, 1);
  fetch(slots.farthest, 1);
  lane_.wait(work_.cancellation);
  for (std::uint32_t list = first; list < end; ++list) {
    out.counts[list] += host[slots.begins][list + 1] - host[slots.begins][list];
    const Candidate& far = host[slots.farthest][list];
    if (!(far.distance > out.farthest[list].distance)) continue;
    out.farthest[list] = {far.distance, rows_.blocks()[far.block]->id, far.row};
  }
  const std::size_t dim = work_.dim;
  std::copy_n(sums, (end - first) * dim, out.sums.data() + first * dim);
  std::copy_n(squares, end - first, out.squares.data() + first);
}

}  // namespace warplite::gpu

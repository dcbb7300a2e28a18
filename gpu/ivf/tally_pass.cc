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

TallyPass::TallyPass(const Gpu& gpu, Lane& lane, const compute::TallyWork& work)
    : gpu_(gpu), lane_(lane), work_(work), rows_work_(naming(work)), rows_(rows_work_) {
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
  RowSet lists(search);
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
  RowSet lists(search);
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

void TallyPass::sum(compute::ListTallies& out) {
  const std::uint32_t rows = rows_.rows(), lists = work_.lists;
  Plan results;
  const Slot<double> sums(results, std::size_t{lists} * work_.dim);
  const Slot<double> squares(results, lists);
  const Plan sent = results;
  const Slot<std::uint32_t> begins(results, std::size_t{lists} + 1);
  const Slot<Candidate> farthest(results, lists);
  Plan plan = results;
  const Slot<std::uint32_t> members(plan, rows);
  const Slot<std::byte> sorting(plan, sort_lists_scratch(rows));
  const Arena arena = lane_.scratch(plan);
  const Staging before = lane_.outgoing(sent);
  std::ranges::copy(out.sums, before[sums].begin());
  std::ranges::copy(out.squares, before[squares].begin());
  before.send(sent, arena, lane_.stream(), "sending sums of lists");
  launch_sort_lists(listed_, arena[sorting], sorting.bytes(), arena[members], arena[begins],
                    lane_.stream());
  launch_sum_lists(listed_, arena[members], arena[begins],
                   {arena[sums], arena[squares], arena[farthest]}, lane_.stream());
  const Arena host = lane_.incoming(results);
  check(cudaMemcpyAsync(host[sums], arena[sums], results.size(), cudaMemcpyDeviceToHost,
                        lane_.stream()),
        "fetching sums of lists");
  lane_.wait(work_.cancellation);
  for (std::uint32_t list = 0; list < lists; ++list) {
    out.counts[list] += host[begins][list + 1] - host[begins][list];
    const Candidate& far = host[farthest][list];
    if (!(far.distance > out.farthest[list].distance)) continue;
    out.farthest[list] = {far.distance, rows_.blocks()[far.block]->id, far.row};
  }
  std::copy_n(host[sums], sums.count(), out.sums.begin());
  std::copy_n(host[squares], squares.count(), out.squares.begin());
}

}  // namespace warplite::gpu

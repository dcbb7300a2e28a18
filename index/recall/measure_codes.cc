#include "index/recall/measure_codes.h"

#include <algorithm>
#include <memory>
#include <span>

#include "compute/device.h"
#include "compute/ivf.h"
#include "index/quantization/codes.h"
#include "index/recall/mean_found.h"

namespace warplite::index {
namespace {

constexpr std::size_t kNearHeld = 512;  // held rows at most whose surroundings are coded
constexpr std::size_t kCodedCounts[] = {1, 10, 100};
constexpr std::size_t kNearCounts[] = {1, 10};  // of which the others nearby are all there
constexpr std::size_t kCandidates = 1024;       // which every device takes

// Of some queries, in ascending order.
std::vector<std::size_t> rows_of(compute::HitTable& hits, std::size_t queries) {
  std::vector<std::size_t> rows;
  for (std::size_t q = 0; q < queries; ++q) {
    for (const Hit& hit : hits.sorted(q)) rows.push_back(hit.row);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

// Held rows that are searched for by codes: fewer where each list of each costs a table.
std::size_t coded_held(const HeldRows& held) {
  constexpr std::size_t kMostTables = std::size_t{1} << 18;
  const compute::IvfShape& shape = held.model.shape();
  const std::size_t most = shape.listwise ? kMostTables / shape.lists : kHeldRows;
  return std::min(held.rows.view().rows, std::max(kLeastHeld, most));
}

// What a model says to a device, with the bytes that are resident there.
class ResidentModel {
 public:
  ResidentModel(compute::Device& device, const InvertedModel& model) : buffers_(model.buffers()) {
    const compute::IvfShape& shape = model.shape();
    const std::size_t vector = shape.dim * sizeof(float);
    centroids_ = resident(device, model.centroids(),
                          (std::size_t{shape.lists} + shape.groups) * vector);
    if (shape.has_codebooks()) {
      codebooks_ = resident(device, model.codebooks(), shape.codewords() * vector);
    }
    if (const Run* const lists = model.coarse(); lists != nullptr) {
      coarse_ = resident(device, lists->bytes.data(), lists->bytes.size());
    }
    buffers_.centroids = centroids_.get();
    buffers_.codebooks = codebooks_.get();
    buffers_.coarse = coarse_.get();
  }
  const compute::IvfModelBuffers& buffers() const { return buffers_; }

 private:
  compute::IvfModelBuffers buffers_;
  std::shared_ptr<const compute::Buffer> centroids_, codebooks_, coarse_;
};

// The best rows by their codes alone.
compute::HitTable by_codes(const HeldRows& held_rows, const CodedRows& some, std::size_t held) {
  const InvertedModel& model = held_rows.model;
  const std::size_t rows = some.rows.rows;
  const Run run = model.make_run({&some.block, 1});
  compute::Device& device = held_rows.task.device().supports_ivf(model.shape())
                                ? held_rows.task.device()
                                : compute::Registry::instance().host();
  const auto bytes = resident(device, run.bytes.data(), run.bytes.size());
  const ResidentModel on_device(device, model);
  compute::Block block;
  block.rows = block.live_rows = static_cast<std::uint32_t>(rows);
  const compute::IvfRun given{bytes.get(), run.positions, run.longest, {&block, 1}};
  compute::IvfWork work;
  work.distance = held_rows.distance;
  work.queries = held_rows.rows.first(held);
  work.model_queries = held_rows.in_model_space.data();
  work.model = on_device.buffers();
  work.runs = {&given, 1};
  work.nprobe = model.shape().lists;
  work.cancellation = held_rows.task.cancellation();
  compute::HitTable best(held, std::min(kCandidates, rows));
  device.ivf_nearest(work, best).raise();
  return best;
}

// places[q][n]: how many candidates come before the n-th nearest of so many rows.
std::vector<std::uint32_t> places_of(compute::HitTable& truth, compute::HitTable& candidates,
                                     std::size_t rows, const TrainingTask& task) {
  std::vector<std::uint32_t> places(truth.queries() * truth.k());
  std::vector<std::uint32_t> place_of(rows);
  for (std::size_t q = 0; q < truth.queries(); ++q) {
    task.poll()();
    std::fill(place_of.begin(), place_of.end(), ~0u);
    const std::span<const Hit> found = candidates.sorted(q);
    for (std::size_t i = 0; i < found.size(); ++i) {
      place_of[found[i].row] = static_cast<std::uint32_t>(i);
    }
    for (std::size_t n = 0; n < truth.k(); ++n) {
      places[q * truth.k() + n] = place_of[truth.sorted(q)[n].row];
    }
  }
  return places;
}

// Adds what codes find of the nearest of these rows, as a share of `all`.
void tabulate(const HeldRows& held_rows, const CodedRows& some, std::size_t held, std::size_t all,
              const Twins& of_all, std::span<const std::size_t> counts, Calibration::Table& table) {
  const TrainingTask& task = held_rows.task;
  compute::HitTable candidates = by_codes(held_rows, some, held);
  const auto buffer =
      resident(task.device(), some.rows.data, some.rows.rows * some.rows.stride());
  compute::HitTable truth =
      held_rows.nearest(buffer.get(), some.rows, held, counts.back() + kMostTwins);
  const Twins twins = held_rows.twins(truth, &of_all);
  const std::vector<std::uint32_t> places = places_of(truth, candidates, some.rows.rows, task);
  for (const std::size_t count : counts) {
    if (count > truth.k()) continue;
    table.shares.push_back(static_cast<float>(static_cast<double>(count) / static_cast<double>(all)));
    for (const std::uint32_t refine : table.looks) {
      task.poll()();
      table.found.push_back(mean_found(places, truth.k(), twins, count, refine * count));
    }
  }
}

}  // namespace

CodedRows::CodedRows(const HeldRows& held, const MatrixView& some)
    : rows(some),
      codes(held.model.encode(held.task.device(), some, nullptr, held.task.cancellation())),
      block{{codes.data(), codes.size()}, static_cast<std::uint32_t>(some.rows)} {}

std::vector<std::uint32_t> CodedRows::lists(const InvertedModel& model) const {
  const CodesView view(model.shape(), block);
  std::vector<std::uint32_t> lists(block.rows);
  for (std::uint32_t row = 0; row < block.rows; ++row) {
    lists[row] = view.list(block.codes.data(), row);
  }
  return lists;
}

// Every list is looked into, so that nothing but the codes loses rows. Where rows lie in groups, as
// pages of a document or frames of a film do, a part of the rows has a part of each group, which hides
// how many are alike. So of small shares all rows count that lie near a held row.
void measure_codes(const HeldRows& held, const MatrixView& all, const CodedRows& some,
                   compute::HitTable& nearest, const Twins& twins, Calibration::Table& table) {
  const std::size_t searched = coded_held(held);
  table.looks = ladder(kCandidates);
  std::span<const std::size_t> counts = kCodedCounts;
  if (all.rows > some.rows.rows) {
    const std::size_t few = std::min(searched, kNearHeld);
    const PickedRows near(all, rows_of(nearest, few));
    tabulate(held, CodedRows(held, near.view()), few, all.rows, twins, kNearCounts, table);
    counts = counts.subspan(1);
  }
  tabulate(held, some, searched, some.rows.rows, twins, counts, table);
}

}  // namespace warplite::index

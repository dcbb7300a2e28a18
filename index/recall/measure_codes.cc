#include "index/recall/measure_codes.h"

#include <algorithm>
#include <memory>
#include <span>

#include "compute/device.h"
#include "compute/ivf.h"
#include "index/quantization/codes.h"

namespace warplite::index {
namespace {

constexpr std::size_t kCandidates = 1024;  // which every device takes

// Held rows that are searched for by codes among so many rows: fewer where each list of each costs
// a table, and where there are many rows, unless those that tell of fresh queries are a part of
// them.
std::size_t coded_held(const HeldRows& held, const Groups& groups, std::size_t rows) {
  constexpr std::size_t kMostTables = std::size_t{1} << 18, kMostPairs = std::size_t{1} << 25;
  constexpr std::size_t kOfManyRows = 512;
  const compute::IvfShape& shape = held.model.shape();
  const std::size_t suffice = groups.any() ? kHeldRows : std::max(kOfManyRows, kMostPairs / rows);
  const std::size_t most = shape.listwise ? kMostTables / shape.lists : suffice;
  return std::min(held.size(), std::max(kLeastHeld, most));
}

// What a model says to a device, with the bytes that are resident there.
class ResidentModel {
 public:
  ResidentModel(compute::Device& device, const InvertedModel& model) : buffers_(model.buffers()) {
    const compute::IvfShape& shape = model.shape();
    const std::size_t vector = shape.dim * sizeof(float);
    centroids_ =
        resident(device, model.centroids(), (std::size_t{shape.lists} + shape.groups) * vector);
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
  const LiveRows live(held_rows, rows);
  live.mark(block);
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

// Where the nearest rows of the first held rows are among the candidates.
Places places_among(compute::HitTable& candidates, const Places& nearest, std::size_t rows,
                    const TrainingTask& task) {
  Places found{nearest.width, {}, {}};
  std::vector<std::uint32_t> place_of(rows, ~0u);
  for (std::size_t q = 0; q < candidates.queries(); ++q) {
    task.poll()();
    found.add(nearest, q);
    const std::span<const Hit> best = candidates.sorted(q);
    for (std::size_t i = 0; i < best.size(); ++i)
      place_of[best[i].row] = static_cast<std::uint32_t>(i);
    for (std::size_t n = found.places.size() - found.width; n < found.places.size(); ++n) {
      found.places[n] = found.rows[n] == kNoRow ? ~0u : place_of[found.rows[n]];
    }
    for (const Hit& hit : best) place_of[hit.row] = ~0u;
  }
  return found;
}

}  // namespace

CodedRows::CodedRows(const HeldRows& held, const MatrixView& some)
    : rows(some),
      codes(held.model.encode(held.task.device(), some, nullptr, held.task.cancellation())),
      block{{codes.data(), codes.size()}, static_cast<std::uint32_t>(some.rows)},
      run(held.model.make_run({&block, 1})) {}

std::vector<std::uint32_t> CodedRows::lists(const InvertedModel& model) const {
  const CodesView view(model.shape(), block);
  std::vector<std::uint32_t> lists(block.rows);
  for (std::uint32_t row = 0; row < block.rows; ++row) {
    lists[row] = view.list(block.codes.data(), row);
  }
  return lists;
}

// Every list is looked into, so that nothing but the codes loses rows. All rows take part: of those
// that lie in groups, or are one vector many times, a part hides how many come before a row.
void measure_codes(const std::deque<HeldRows>& folds, const Groups& groups, const CodedRows& coded,
                   const std::vector<Places>& nearest, const Share& share,
                   const std::vector<std::vector<Contrast>>& contrasts, Calibration& calibration) {
  Calibration::Table& table = calibration.codes;
  std::vector<Calibration::Table>& by_step = calibration.contrasts.codes;
  if (table.looks.empty()) {
    table.looks = ladder(kCandidates);
    by_step.assign(calibration.contrasts.lists.size(), table);
  }
  ObservedByContrast observed(groups, calibration.contrasts, contrasts);
  for (std::size_t fold = 0; fold < folds.size(); ++fold) {
    const HeldRows& held = folds[fold];
    const std::size_t queries =
        std::min(coded_held(held, groups, coded.rows.rows), nearest[fold].queries());
    compute::HitTable candidates = by_codes(held, coded, queries);
    observed.add(fold, places_among(candidates, nearest[fold], coded.rows.rows, held.task));
  }
  observed.tabulate(share, folds.front().task, true, table, by_step);
}

}  // namespace warplite::index

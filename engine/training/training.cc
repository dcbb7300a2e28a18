#include "engine/training/training.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/residency/common_cancellation.h"
#include "engine/table/late_training.h"
#include "engine/training/time_limit.h"
#include "index/recall/calibration.h"
#include "index/recall/drift.h"

namespace warplite::engine {
namespace {

// Bytes that two cores compare in a second of training; a little less than measured.
constexpr double kBytesPerSecond = 2e11;
// How many rows each row of a sample is compared with to measure recall, about.
constexpr double kComparisons = 1024;

// A number that looks random, of `n` alone.
std::uint64_t scramble(std::uint64_t n) {
  n += 0x9e3779b97f4a7c15;
  n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
  n = (n ^ n >> 27) * 0x94d049bb133111eb;
  return n ^ n >> 31;
}

// One of each `total / wanted` live rows, so that no part of the table is left out and no pattern
// in the order of rows is met.
class Strata {
 public:
  Strata(std::uint64_t total, std::uint64_t wanted)
      : total_(total), wanted_(std::min(total, wanted)) {
    choose();
  }
  std::uint64_t wanted() const { return wanted_; }
  // Live rows are numbered in the order of parts. Comes with ascending numbers.
  bool take(std::uint64_t number) {
    if (at_ == wanted_ || number != chosen_) return false;
    ++at_;
    choose();
    return true;
  }
  bool any_before(std::uint64_t end) const { return at_ != wanted_ && chosen_ < end; }

 private:
  std::uint64_t begin(std::uint64_t stratum) const {
    return static_cast<std::uint64_t>(static_cast<double>(total_) * static_cast<double>(stratum) /
                                      static_cast<double>(wanted_));
  }
  void choose() {
    if (at_ == wanted_) return;
    const std::uint64_t first = begin(at_);
    chosen_ = first + scramble(at_) % std::max<std::uint64_t>(begin(at_ + 1) - first, 1);
  }

  const std::uint64_t total_;
  const std::uint64_t wanted_;
  std::uint64_t at_ = 0;
  std::uint64_t chosen_ = 0;
};

bool has_vectors(const SegmentPart& segment, std::size_t column) {
  return !segment.info().vectors[column].is_null();
}

class Sampler {
 public:
  Sampler(const Layout::Vector& shape, std::size_t column, Strata strata)
      : column_(column), stride_(shape.stride()), strata_(strata),
        bytes_(strata.wanted() * shape.stride(), Bytes::Fill::kGradual) {
    sample_.dim = shape.dim;
    sample_.type = shape.type;
  }

  // Samples, which live as long as this: of all rows, those of segments before that number first,
  MatrixView take(const Snapshot& snapshot, std::int64_t segment, compute::Cancellation* cancellation) {
    take_segments(snapshot, 0, segment, cancellation);
    older_ = sample_.rows;
    return take_newer(snapshot, segment, cancellation);
  }
  // and of those that are newer.
  MatrixView take_newer(const Snapshot& snapshot, std::int64_t segment,
                        compute::Cancellation* cancellation) {
    take_segments(snapshot, segment, snapshot.state.next_segment, cancellation);
    if (snapshot.tail.part != nullptr) add(*snapshot.tail.part);
    sample_.data = bytes_.data();
    return sample_;
  }
  // How many of them are.
  std::size_t newer() const { return sample_.rows - older_; }

 private:
  void take_segments(const Snapshot& snapshot, std::int64_t first, std::int64_t end,
                     compute::Cancellation* cancellation) {
    for (const auto& segment : snapshot.segments()) {
      ask(cancellation);
      const std::int64_t id = segment->info().id;
      if (id >= first && id < end && has_vectors(*segment, column_)) add(*segment);
    }
  }

  void add(const Part& part) {
    const std::uint64_t end = next_ + part.live_rows();
    if (strata_.any_before(end)) copy(part);
    next_ = end;
  }

  void copy(const Part& part) {
    const Part::Vectors vectors = part.vectors(column_);
    std::uint64_t number = next_;
    for (std::uint32_t row = 0; row < part.rows(); ++row) {
      if (!is_alive(part, row) || !strata_.take(number++)) continue;
      if (vectors.all_null || (vectors.present != nullptr && !vectors.present->test(row))) continue;
      std::memcpy(bytes_.data() + sample_.rows++ * stride_, vectors.data.row(row), stride_);
    }
  }

  const std::size_t column_;
  const std::size_t stride_;
  Strata strata_;
  Bytes bytes_;
  MatrixView sample_;
  std::size_t older_ = 0;
  std::uint64_t next_ = 0;
};

// Null: there are none.
Stamp first_vectors(const Snapshot& snapshot, std::size_t column) {
  for (const auto& segment : snapshot.segments()) {
    if (has_vectors(*segment, column)) return segment->info().vectors[column];
  }
  return {};
}

}  // namespace

std::size_t rows_in_time(const index::Trained& index, std::uint64_t rows, std::uint32_t seconds) {
  std::size_t size = index.sample_rows(rows);
  if (seconds == 0) return size;
  const std::size_t least = size / 8;
  while (size > least && index.training_bytes(size) > kBytesPerSecond * seconds) {
    size = std::max(least, size - size / 8);
  }
  return size;
}

void remember_late(const Snapshot& snapshot, std::size_t column, double growth, std::uint32_t seconds) {
  const auto rows = growth * static_cast<double>(sealed_rows(snapshot, column));
  remember_late(first_vectors(snapshot, column), {static_cast<std::uint64_t>(std::ceil(rows)), seconds});
}

bool was_late(const Snapshot& snapshot, std::size_t column) {
  const std::optional<LateTraining> late = late_training(first_vectors(snapshot, column));
  if (!late || sealed_rows(snapshot, column) >= late->rows) return false;
  return late->seconds == 0 || training_limit() <= late->seconds;
}

std::uint64_t live_rows(const Snapshot& snapshot, std::size_t column) {
  return sealed_rows(snapshot, column) + snapshot.tail.live;
}

std::uint64_t sealed_rows(const Snapshot& snapshot, std::size_t column) {
  std::uint64_t rows = 0;
  for (const auto& segment : snapshot.segments()) {
    if (has_vectors(*segment, column)) rows += segment->live_rows();
  }
  return rows;
}

Change change_since(const Snapshot& snapshot, std::size_t column, const index::TableMoment& then) {
  Change change;
  for (const auto& segment : snapshot.segments()) {
    if (!has_vectors(*segment, column)) continue;
    change.rows += segment->live_rows();
    if (segment->info().id >= then.next_segment) change.newer += segment->live_rows();
  }
  const std::uint64_t left = change.rows - change.newer;
  change.gone = then.rows > left ? then.rows - left : 0;
  return change;
}

bool newer_drifted(const Snapshot& snapshot, const TableOptions& options, std::size_t column,
                   const index::InvertedModel& model, compute::Cancellation* cancellation) {
  constexpr std::size_t kRows = 512;
  if (model.calibration() == nullptr) return false;
  const index::TableMoment& then = model.calibration()->table;
  const std::uint64_t newer = change_since(snapshot, column, then).newer + snapshot.tail.live;
  Sampler sampler(options.layout.vectors[column], column, Strata(newer, kRows));
  const MatrixView sample = sampler.take_newer(snapshot, then.next_segment, cancellation);
  // A GPU would have to be given the centroids first.
  return index::drifted(compute::Registry::instance().host(), model, sample, cancellation);
}

std::shared_ptr<const index::InvertedModel> measure(
    const Snapshot& snapshot, const TableOptions& options, std::size_t column,
    const index::InvertedIndex& index, const index::InvertedModel& model, std::size_t rows,
    compute::Cancellation* cancellation, const index::Progress& progress) {
  const std::uint64_t all = live_rows(snapshot, column);
  const index::Calibration* const known = model.calibration();
  Sampler sampler(options.layout.vectors[column], column,
                  Strata(all, rows));
  const MatrixView sample =
      sampler.take(snapshot, known == nullptr ? 0 : known->table.next_segment, cancellation);
  std::shared_ptr<const index::InvertedModel> measured;
  const double bytes = static_cast<double>(sample.rows) * static_cast<double>(sample.stride());
  on_workers({{}, training_ability(), kComparisons * bytes, cancellation},
             [&](const compute::Devices& devices) {
               measured = index.measure(devices, model, sample, sampler.newer(),
                                        {all, snapshot.state.next_segment}, cancellation, progress);
             });
  return measured;
}

std::shared_ptr<const index::Model> learn(const Snapshot& snapshot, const TableOptions& options,
                                          std::size_t column, const index::Trained& index,
                                          std::size_t rows,
                                          compute::Cancellation* cancellation,
                                          const index::Progress& progress) {
  const std::uint64_t all = live_rows(snapshot, column);
  Sampler sampler(options.layout.vectors[column], column, Strata(all, rows));
  const MatrixView sample = sampler.take(snapshot, 0, cancellation);
  std::shared_ptr<const index::Model> model;
  on_workers({{}, training_ability(), index.training_bytes(sample.rows), cancellation},
             [&](const compute::Devices& devices) {
               model = index.train(devices, sample, {all, snapshot.state.next_segment},
                                   cancellation, progress);
             });
  return model;
}

}  // namespace warplite::engine
